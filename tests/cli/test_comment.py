"""`allot comment` against servers that answer as GitHub and GitLab do, and fail as they do: cases 34 and 42 to 44."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.adapters.forge.server import BOT, TOKEN, Answer, GitHubWorld
from tests.conftest import checked, edit
from tests.support.brake_limits import GROUPS, brake, remove
from tests.support.comment_desk import WEBUI, Desk, desk, on_each_forge
from tests.support.published import git

from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import ApplicationStatus, Condition, Instance, TenantStatus
from allotment.services.pull_requests import plan_comment, plan_sandbox

__all__ = ["desk"]  # a fixture

BY_A_PROCESS = plan_sandbox._run_process
COMMENTS, STATUSES = r"POST .*(comments|notes)$", r"POST .*statuses/"


@pytest.mark.process
@on_each_forge
def test_a_plan_is_one_comment_and_a_status_and_the_second_run_writes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_sandbox, "_run_process", BY_A_PROCESS)
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    result = desk.comment("--number", 1, "--head", head)
    assert (result.code, result.out) == (0, "#1: can be merged · 1 changed\n"), result.err
    (body,) = desk.world.bodies(1)
    assert "### ✅ This can be merged" in body
    assert desk.status(head) == "success"
    expected_status = {"numbers": [1], "state": "success", "words": "can be merged · 1 changed", "trouble": None}
    desk.world.calls.clear()
    for words, more in ((("--number", 1), (None, None)), (("--all",), (1, 0))):
        document = checked("comment", desk.comment(*words, "-o", "json").out)
        assert (document["said"], document["open"], document["going"]) == ([expected_status], *more)
    assert desk.world.writes() == []


@on_each_forge
def test_a_new_head_changes_the_comment_in_place(desk: Desk) -> None:
    first = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    for at in range(7):
        desk.world.say(1, "eve", f"<!-- allotment:plan -->\nnumber {at}")
    desk.comment("--number", 1)
    head = desk.propose(1, "l4-quarter", "l4-nothing")
    for at in range(7):
        desk.world.say(1, "eve", f"number {at}")
    desk.comment("--number", 1)
    (body,) = desk.world.bodies(1)
    assert "no GPUSpec is named 'l4-nothing'" in body
    assert (desk.status(first), desk.status(head)) == ("success", "failure")
    assert len(desk.world.bodies(1, "eve")) == 14, "what others wrote stays theirs"


@on_each_forge
def test_a_post_that_was_cut_off_after_it_took_effect_is_not_repeated(desk: Desk) -> None:
    desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    desk.world.fail(COMMENTS, None, after=True)
    result = desk.comment("--number", 1)
    assert (result.code, f"the forge at {desk.world.url} doesn't answer: " in result.err) == (2, True)
    assert desk.comment("--number", 1).code == 0
    assert len(desk.world.bodies(1)) == 1


@on_each_forge
def test_of_several_comments_of_ours_the_oldest_stays(desk: Desk) -> None:
    desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    oldest = desk.world.say(1, BOT, "<!-- allotment:plan -->\nof another process")
    for _ in range(3):
        desk.world.say(1, BOT, "<!-- allotment:plan -->\nof a third one")
    desk.comment("--number", 1)
    (mine,) = [comment for comment in desk.world.pulls[1].comments if comment["login"] == BOT]
    assert mine["id"] == oldest["id"]
    assert "can be merged" in mine["body"]


@on_each_forge
def test_a_rate_limit_is_waited_for_and_the_verdict_stands_meanwhile(desk: Desk) -> None:
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    desk.world.fail(COMMENTS, Answer(429, {"message": "slow down"}, {"Retry-After": "1"}))
    result = desk.comment("--number", 1)
    assert (result.code, "takes no more requests for 1 seconds: waiting" in result.err) == (0, True)
    assert desk.status(head) == "success"
    assert len(desk.world.bodies(1)) == 1
    desk.world.fail(COMMENTS, Answer(429, {"message": "slow down"}, {"Retry-After": "3600"}))
    desk.world.pulls[1].comments.clear()
    assert desk.comment("--number", 1).code == 2, "nobody waits for an hour in CI"


@on_each_forge
def test_a_status_of_somebody_else_is_not_taken_for_ours(desk: Desk) -> None:
    head = desk.propose(1, "l4-quarter", "l4-nothing")
    name = "context" if isinstance(desk.world, GitHubWorld) else "name"
    faked = {name: "allot/plan", "state": "success", "description": "can be merged", "login": "eve"}
    desk.world.statuses[head] = [faked]
    desk.comment("--number", 1)
    assert desk.status(head) == "failure"
    desk.world.statuses[head].append(faked)
    desk.comment("--number", 1)
    assert desk.status(head) == "failure", "ours is said again"


def test_an_event_about_a_head_that_moved_on_says_nothing(desk: Desk) -> None:
    old = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    new = desk.propose(1, "l4-quarter", "l4-whole")
    assert "its head has changed" in desk.comment("--number", 1, "--head", old).out
    assert (desk.world.bodies(1), desk.status(old), desk.status(new)) == ([], "", "")
    desk.world.pulls[1].head = "0" * 40  # the forge knows of a push that its Git doesn't show yet
    assert "its head has changed" in desk.comment("--number", 1).out


def test_without_a_base_nothing_is_said(desk: Desk) -> None:
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    git(desk.place.remote, "update-ref", "-d", "refs/heads/main")
    result = desk.comment("--number", 1)
    assert (result.code, "has no branch main" in result.err) == (2, True)
    assert (desk.world.bodies(1), desk.status(head)) == ([], "")


@on_each_forge
def test_only_open_requests_for_the_branch_that_counts_are_planned(desk: Desk) -> None:
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    desk.world.pulls[1].base = "elsewhere"
    assert "it is not for main" in desk.comment("--number", 1).out
    desk.world.pulls[1].base, desk.world.pulls[1].state = "main", "closed"
    assert "it is not open" in desk.comment("--number", 1).out
    assert desk.status(head) == ""
    assert desk.comment("--number", 99).code == 2


@on_each_forge
def test_comment_reads_approvals_from_the_forge(desk: Desk) -> None:
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n", author="eve")
    desk.comment("--number", 1)
    assert desk.status(head) == "failure"
    desk.world.approve(1, "eve")
    desk.comment("--number", 1)
    assert desk.status(head) == "failure"
    desk.world.approve(1, "Ada-K")
    desk.comment("--number", 1)
    assert desk.status(head) == "success"


def test_a_team_that_the_token_may_not_see_approves_nothing_and_that_is_said(desk: Desk) -> None:
    desk.world.teams.clear()
    root = desk.place.root
    git(root, "checkout", "-q", "-B", "other")
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n", author="pat")
    desk.comment("--number", 1)
    assert desk.status(head) == "failure"


def seen(desk: Desk, state: str, reason: str, **more: object) -> None:
    """Report ada's instance in a state."""
    blob = compute_blob_id((desk.place.root / WEBUI).read_bytes())
    instance = Instance(name="webui", observed_blob=blob, state=state, reason=reason, **more)  # type: ignore[arg-type]  # fields of Instance, by name
    desk.place.report("eu-1", TenantStatus("solo-ada", "eu-1", instances=(instance,)))


@on_each_forge
def test_a_merge_is_followed_until_it_runs(desk: Desk) -> None:
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    commit = desk.merge(1)
    desk.comment("--all")
    (body,) = desk.rollouts(1)
    assert f"### ⏳ Rollout of `{commit[:12]}`: merged, not published yet" in body
    assert desk.status(head, "allot/rollout") == "pending"
    desk.place.publish()
    desk.comment("--all")
    assert "the state of eu-1 is unknown: no reporter has reported it yet" in desk.rollouts(1)[0]
    seen(desk, "Failed", "OutOfMemory", message="the container was ended, it took too much memory @ada")
    desk.comment("--all")
    (body,) = desk.rollouts(1)
    assert "`the container was ended, it took too much memory @ada` → choose a GPUSpec with more memory" in body
    assert desk.status(head, "allot/rollout") == "failure"
    url = "https://webui--solo-ada.eu-1.gpu.northlight.example/"
    seen(desk, "Running", "ProbesAnswered", url=url, pods=1, running_pod="webui-1")
    desk.comment("--all")
    (body,) = desk.rollouts(1)
    assert "1 running" in body
    assert "<https://webui--solo-ada.eu-1.gpu.northlight.example/>" in body
    page = "https://argocd.northlight.example/applications/argocd/solo-ada--eu-1--compute"
    graphs = "https://grafana.northlight.example/d/gpus/instances?var-cluster=eu-1&var-namespace=t-solo-ada"
    assert (
        f" [log]({page}?node=apps/Deployment/t-solo-ada/webui/0&tab=logs)"
        f" [terminal]({page}?node=/Pod/t-solo-ada/webui-1/0&tab=exec)"
        f" [graphs]({graphs}&var-instance=webui) |"
    ) in body
    assert desk.status(head, "allot/rollout") == "success"
    desk.world.calls.clear()
    seen(desk, "Stopped", "StoppedAsDeclared")
    assert desk.comment("--all").out.endswith("0 merged but not running yet\n")
    assert desk.world.writes() == [], "what is done is silent"


def test_a_removal_that_argo_cd_missed_fails(desk: Desk) -> None:
    desk.place.publish()
    root = desk.place.root
    blob = compute_blob_id((root / WEBUI).read_bytes())
    git(root, "checkout", "-q", "-B", "change-1")
    (root / WEBUI).unlink()
    head = desk.open(1, "ada-k")
    desk.merge(1)
    desk.place.publish()
    young = Condition("Declared", "False", "Removed", "being removed", "2026-11-21T10:00:00Z")
    stays = msgspec.structs.replace(
        young, reason="RemovedStillRunning", message="removed, still running: not published since …"
    )
    for condition, row, status in (
        (young, "| published | `being removed` |", "pending"),
        (
            stays,
            "| still running | `removed, still running: not published since …` → ask the platform team to",
            "failure",
        ),
    ):
        instance = Instance("webui", blob, "Running", condition.reason, conditions=(condition,))
        part = ApplicationStatus("compute", "Synced", "Healthy")
        desk.place.report("eu-1", TenantStatus("solo-ada", "eu-1", (part,), (instance,)))
        desk.comment("--all")
        assert row in desk.rollouts(1)[0]
        assert desk.status(head, "allot/rollout") == status
    assert " refresh Application solo-ada--eu-1--compute |" in desk.rollouts(1)[0]
    desk.place.report("eu-1", TenantStatus("solo-ada", "eu-1"))
    desk.comment("--all")
    assert "1 gone" in desk.rollouts(1)[0]
    assert desk.status(head, "allot/rollout") == "success"


def test_a_rollout_that_a_person_removed_or_locked_is_silent(desk: Desk) -> None:
    desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    desk.merge(1)
    desk.comment("--all")
    desk.world.pulls[1].comments.clear()
    desk.place.publish()
    desk.comment("--all")
    assert desk.rollouts(1) == []
    desk.propose(2, "spec:\n", "spec:\n  displayName: Mine\n")
    desk.merge(2)
    desk.world.pulls[2].locked = True
    desk.comment("--all")
    assert desk.rollouts(2) == []


def test_comment_explains_why_publish_retains_a_tenant(desk: Desk) -> None:
    desk.place.publish()
    desk.propose(1, "l4-quarter", "l4-nothing")
    desk.merge(1)
    assert desk.place.publish().code == 4
    desk.comment("--all")
    (body,) = desk.rollouts(1)
    assert "| kept |" in body
    assert (
        "its tenant is retained: Invalid: tenants/solo-ada/instances/webui.yaml:8:12: spec.gpuSpec: no GPUSpec is"
        in body
    )
    assert "→ run `allot validate`, and correct the declarations" in body


def test_a_rollout_names_the_problems_of_its_own_tenant_alone(desk: Desk) -> None:
    brake(desk.place, 20, 4)
    desk.place.merged()
    desk.propose(1, "l4-quarter", "l4-nothing")
    root = desk.place.root
    git(root, "checkout", "-q", "-B", "change-2")
    remove(desk.place, GROUPS)
    desk.open(2, "ada-k")
    desk.merge(1)
    desk.merge(2)
    assert desk.place.publish().code == 4
    desk.comment("--all")
    (ada,), (lab,) = desk.rollouts(1), desk.rollouts(2)
    assert ("uni-lab" in ada, "l4-nothing" in ada) == (False, True)
    assert ("solo-ada" in lab, "l4-nothing" in lab) == (False, False)
    assert "its tenant is retained: Brake: tenants/uni-lab:1:1: (file): the brake stops this: 4 of 4 instances" in lab
    assert "→ restore the declarations, or have the deletion approved" in lab


def test_a_record_of_another_publish_is_not_told(desk: Desk) -> None:
    desk.place.publish()
    desk.propose(1, "l4-quarter", "l4-nothing")
    desk.merge(1)
    desk.place.publish()
    (desk.place.root / "README.md").write_text("x")
    git(desk.place.remote, "update-ref", "refs/allotment/source", desk.place.merge())
    desk.comment("--all")
    (body,) = desk.rollouts(1)
    assert "| kept |" in body
    assert "Invalid" not in body


def test_a_change_that_another_one_overtook_says_so(desk: Desk) -> None:
    desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    desk.merge(1)
    desk.propose(2, "description: Mine.", "description: Still mine.")
    desk.merge(2)
    desk.place.publish()
    desk.comment("--all")
    assert "| overtaken |" in desk.rollouts(1)[0]


@pytest.mark.parametrize("words", [(), ("--number", "0"), ("--all", "--number", "1")])
def test_comment_requires_either_all_or_a_number(desk: Desk, words: tuple[str, ...]) -> None:
    assert desk.comment(*words).code == 2


def test_no_output_ever_holds_the_token(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", "wr0ng-token")
    result = desk.comment("--number", 1)
    assert result.code == 2
    assert "wr0ng" not in result.out + result.err
    file = desk.place.root.parent / "token"
    file.write_text(f"{TOKEN}\n")
    os.environ.pop("ALLOT_FORGE_TOKEN")
    assert desk.comment("--number", 1, "--forge-token-file", file).code == 0
    file.write_text(TOKEN, encoding="utf-16")
    result = desk.comment("--number", 1, "--forge-token-file", file)
    assert (result.code, f"{file} can't be read: it is no text in UTF-8" in result.err) == (2, True)
    assert TOKEN not in result.out + result.err


def test_all_of_one_commit_are_planned_whichever_is_named(desk: Desk) -> None:
    head = desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    desk.world.open(2, head, "eve")
    result = desk.comment("--number", 1)
    assert "#1: #1, #2 have this commit; #2: can't be merged" in result.out
    assert desk.status(head) == "failure"
    assert "✅" in desk.world.bodies(1)[0]
    assert "❌" in desk.world.bodies(2)[0]
    desk.world.close_pull(2)
    desk.comment("--all")
    assert desk.status(head) == "success"


@pytest.mark.parametrize("status", [403, 422, 502])
@pytest.mark.parametrize("what", ["statuses", "comments"])
def test_comment_checks_other_pull_requests_after_a_refusal(desk: Desk, what: str, status: int) -> None:
    """Such as a comment on what somebody proposes who blocks us."""
    merged = desk.propose(1, "spec:\n", "spec:\n  description: Merged.\n")
    desk.merge(1)
    heads = [desk.propose(n, "spec:\n", f"spec:\n  displayName: The {n}\n") for n in (2, 3, 4)]
    for _ in range(2):
        path = f"POST .*statuses/{heads[1]}" if what == "statuses" else "POST .*/3/(comments|notes)"
        desk.world.fail(path, Answer(status, {"message": "not from you"}))
    result = desk.comment("--all")
    assert (result.code, f"#3: the forge at {desk.world.url} says {status}: not from you" in result.err) == (2, True), (
        result.err
    )
    assert [desk.status(head) for head in heads[::2]] == ["success", "success"]
    assert "3 open, 1 merged but not running yet" in result.out
    assert desk.status(merged, "allot/rollout") == "pending"


def test_a_bug_with_one_keeps_no_other_from_a_verdict(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [desk.propose(n, "spec:\n", f"spec:\n  displayName: The {n}\n") for n in (1, 2)]
    real = plan_comment.run_plan

    def broken(root: Path, base: str, head: str, **options: Any) -> Any:
        if head == heads[0]:
            raise ZeroDivisionError("ours")
        return real(root, base, head, **options)

    monkeypatch.setattr(plan_comment, "run_plan", broken)
    result = desk.comment("--all")
    assert (result.code, "#1: Traceback" in result.err, "ZeroDivisionError: ours" in result.err) == (3, True, True)
    assert [desk.status(head) for head in heads] == ["pending", "success"]


def test_a_strangers_main_does_not_get_the_token(desk: Desk) -> None:
    root, remote = desk.place.root, desk.place.remote
    edit(root, "platform/platform.yaml", "branch: main", "branch: live")
    desk.place.merge()
    git(root, "push", "-q", "origin", "main:live")
    git(remote, "symbolic-ref", "HEAD", "refs/heads/live")
    edit(
        root,
        "platform/platform.yaml",
        "branch: live",
        "branch: main\n    forge: Gitea\n    url: https://127.0.0.1:9/evil/x",
    )
    desk.place.merge()
    result = desk.comment("--all")
    assert "127.0.0.1:9" not in result.out + result.err
    assert result.code == 0, result.err
