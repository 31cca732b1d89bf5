"""Merges by self service: who lends a right, what the forge declines, and how often."""

from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from tests.adapters.forge.server import Answer, Fault, GitHubWorld, GitLabWorld
from tests.conftest import Allot, edit
from tests.support.comment_desk import WEBUI, Desk
from tests.support.comment_loop_bed import Bed
from tests.support.published import Place, git
from tests.support.pulled import plan_here

from allotment.services.pull_requests import self_service_merge
from allotment.services.pull_requests.self_service_merge import SELF_SERVICE_CONTEXT

POLICY = "  selfService:\n    changes: [Start, Stop, Create, Change, Grow, Snapshot, Delete, Members]\n"
STOP = ("spec:\n", "spec:\n  state: Stopped\n")
START = ("  state: Stopped\n", "")
OPEN, FREE = 5, 2  # pull requests that each claim a unit, and free units
MEMBERS = "tenants/solo-ada/members.yaml"


@pytest.fixture
def bed(
    request: pytest.FixtureRequest, place: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Bed:
    """Return a commenter of a repository with self service, to which nothing was proposed."""
    world = getattr(request, "param", GitHubWorld)()
    request.addfinalizer(world.close)
    world.teams["@northlight-example/platform"] = ["pat"]
    plan_here(monkeypatch)
    monkeypatch.setattr(self_service_merge, "_PAUSES", (0.0,))
    desk = Desk(place, world, allot)
    allow(desk)
    return Bed(desk, tmp_path / "clone")


def allow(desk: Desk, limits: str = "") -> None:
    """Let the base declare self service for the tariff plan of the tenant."""
    edit(desk.place.root, "platform/platform.yaml", "spec:\n", "spec:\n  selfService: Enabled\n")
    edit(desk.place.root, "platform/plans/starter.yaml", "spec:\n", f"spec:\n{POLICY}{limits}")
    desk.place.merge()


def waiting(bed: Bed, number: int = 1) -> str:
    """Return the line of the comment that says why a pull request waits."""
    (body,) = bed.world.bodies(number)
    return [line for line in body.splitlines() if "by itself" in line or "by a person" in line][-1]


@pytest.mark.parametrize("bed", [GitHubWorld, GitLabWorld], ids=["GitHub", "GitLab"], indirect=True)
def test_a_green_change_of_its_own_instance_merges(bed: Bed) -> None:
    head = bed.desk.propose(1, *STOP)
    bed.round()
    assert bed.world.pulls[1].merged
    assert [bed.desk.status(head, context) for context in ("allot/plan", SELF_SERVICE_CONTEXT)] == [
        "success",
        "success",
    ]
    message = git(bed.desk.place.root, "log", "-1", "--format=%B", "main")
    assert message.startswith(
        "Merge #1 by self service: Stop of tenant solo-ada\n\nSelf-Service: tariff plan starter\n"
    )
    assert "\nPlan-Checksum: sha256:" in message
    assert "\nRequested-By: ada-k#" in message
    assert git(bed.desk.place.root, "show", f"main:{WEBUI}").count("state: Stopped")
    (body,) = bed.world.bodies(1)
    assert "\nMerged by self service of tariff plan `starter`.\n" in body
    (merged,) = [about for event, about in bed.log.events if event == "merged"]
    assert (merged["number"], merged["tenant"], merged["changes"], merged["head"]) == (1, "solo-ada", ["Stop"], head)
    assert merged["author"].startswith("ada-k#")
    assert merged["plan"] in message
    bed.round()
    assert len(bed.world.merge_requests) == 1
    assert bed.desk.status(head) == "success", "the status of a merged commit stays"


def test_several_changes_merge_in_one_round_each_on_the_newest_base(bed: Bed) -> None:
    bed.desk.propose(1, *STOP)
    root = bed.desk.place.root
    git(root, "checkout", "-q", "-B", "change-2")
    edit(root, "tenants/solo-ada/storages/models.yaml", "size: ", "size: 1")
    bed.desk.open(2, "ada-k")
    bed.round()
    assert [bool(pull.merged) for pull in bed.world.pulls.values()] == [True, True]
    bodies = bed.world.bodies(1)[0], bed.world.bodies(2)[0]
    assert len({body.split("merged into `")[1][:12] for body in bodies}) == 2, "each plan has its own base"


def test_a_tenant_merges_only_so_often_in_a_day(bed: Bed) -> None:
    edit(
        bed.desk.place.root,
        "platform/plans/starter.yaml",
        "  selfService:\n",
        "  selfService:\n    maxMergesPerDay: 1\n",
    )
    bed.desk.place.merge()
    bed.desk.propose(1, *STOP)
    bed.round()
    assert bed.world.pulls[1].merged
    git(bed.desk.place.root, "checkout", "-q", "main")
    bed.desk.propose(2, *START)
    bed.round()
    assert not bed.world.pulls[2].merged
    assert "tenant solo-ada has 1 merge by self service in 24 hours" in waiting(bed, 2)
    bed.world.pulls[1].merged_at -= datetime.timedelta(days=2)
    bed.world.pulls[1].updated = bed.world.tick()  # somebody comments on the old merge
    bed.world.pulls[2].updated = bed.world.tick()
    bed.round()
    assert bed.world.pulls[2].merged, "after a day there is room again"


@pytest.mark.parametrize("bed", [GitHubWorld, GitLabWorld], ids=["GitHub", "GitLab"], indirect=True)
def test_a_status_of_another_account_hides_no_merge(bed: Bed) -> None:
    edit(
        bed.desk.place.root,
        "platform/plans/starter.yaml",
        "  selfService:\n",
        "  selfService:\n    maxMergesPerDay: 1\n",
    )
    bed.desk.place.merge()
    head = bed.desk.propose(1, *STOP)
    bed.round()
    forged = {**bed.world.statuses[head][-1], "login": "ada-k", "description": "other: Stop"}
    bed.world.statuses[head].append(forged)
    bed.desk.propose(2, *START)
    bed.round()
    assert not bed.world.pulls[2].merged


def test_a_pull_request_that_moves_during_the_merge_waits(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = GitHubWorld._merge
    calls: list[str] = []

    def merge(world: GitHubWorld, query: object, body: dict[str, str], number: str) -> Answer:
        calls.append(number)
        if len(calls) == 1:
            world.change_base(1, "release")
            return Answer(405, {"message": "Please try again later"})
        return plain(world, query, body, number)

    monkeypatch.setattr(GitHubWorld, "_merge", merge)
    bed.desk.propose(1, *STOP)
    bed.round()
    assert (calls, bed.world.pulls[1].merged) == (["1"], "")
    assert "by itself:" in waiting(bed)


def test_a_merge_is_believed_only_where_the_forge_shows_it(bed: Bed) -> None:
    bed.desk.propose(1, *STOP)
    for _ in range(4):
        bed.world.fail("PUT .*merge", Answer(200, {"merged": False}))
    bed.round()
    assert "the forge accepted the merge, but did not merge" in waiting(bed)


@pytest.mark.parametrize("lifecycle", ["Suspended", "Retired"])
def test_a_tenant_that_is_not_active_waits(bed: Bed, lifecycle: str) -> None:
    root = bed.desk.place.root
    edit(root, "tenants/solo-ada/tenant.yaml", "spec:\n", f"spec:\n  lifecycle: {lifecycle}\n")
    edit(root, WEBUI, *STOP)
    bed.desk.place.merge()
    bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    assert bed.world.merge_requests == []
    assert f"the tenant is {lifecycle}" in bed.world.bodies(1)[0]


def test_the_first_preparation_of_a_used_volume_waits(bed: Bed) -> None:
    root = bed.desk.place.root
    edit(root, WEBUI, *STOP)
    bed.desk.place.merge()
    git(root, "checkout", "-q", "-B", "change-1")
    prepare = (
        "spec:\n  prepare:\n    source:\n      image:\n"
        f"        image: registry.example/tools/model-fetch:2.3.0@sha256:{'a' * 64}\n"
    )
    edit(root, "tenants/solo-ada/storages/models.yaml", "spec:\n", prepare)
    bed.desk.open(1, "ada-k")
    bed.round()
    assert bed.world.merge_requests == []
    assert "is prepared: the data on its volume of 60Gi may be overwritten" in bed.world.bodies(1)[0]


def test_a_reason_that_varies_is_written_once(bed: Bed) -> None:
    bed.desk.propose(1, *STOP)
    for number in range(8):
        bed.world.fail("PUT .*merge", Answer(405, {"message": f"declined, request 0a1b2c3d{number}"}))
    for _ in range(2):
        bed.round()
        bed.world.pulls[1].updated = bed.world.tick()
    assert not [call for call in bed.round() if "comments" in call]


def test_only_as_many_merge_as_units_are_free(bed: Bed) -> None:
    root = bed.desk.place.root
    plan = "platform/plans/starter.yaml"
    edit(root, "clusters/eu-1/stocks/l4-quarter.yaml", "count: 40", f"count: {17 + FREE}")
    edit(root, plan, "nvidia-l4: 1\n    instances: 3\n", "nvidia-l4: 100\n    instances: 100\n")
    edit(root, plan, 'perMonth: "300"', 'perMonth: "90000"')
    bed.desk.place.merge()
    instance = (root / WEBUI).read_text(encoding="utf-8").partition("  access:")[0]
    for number in range(1, OPEN + 1):
        git(root, "checkout", "-q", "-B", f"change-{number}", "main")
        path = f"tenants/solo-ada/instances/copy-{number}.yaml"
        (root / path).write_text(instance.replace("name: webui\n", f"name: copy-{number}\n", 1), encoding="utf-8")
        git(root, "add", "-A")
        bed.desk.open(number, "ada-k")
    bed.round()
    merged = [number for number, pull in bed.world.pulls.items() if pull.merged]
    assert len(merged) == FREE
    bed.round()
    for number in bed.world.pulls.keys() - set(merged):
        assert "l4-quarter" in bed.world.bodies(number)[0]
        assert "### ❌ This can't be merged" in bed.world.bodies(number)[0]
    assert len(bed.world.merge_requests) == FREE
    assert len(list((root / "tenants/solo-ada/instances").glob("copy-*"))) == FREE


def draft(bed: Bed) -> None:
    bed.world.pulls[1].draft = True


def close(bed: Bed) -> None:
    bed.world.close_pull(1)


def retarget(bed: Bed) -> None:
    bed.world.change_base(1, "other")


def retarget_and_return(bed: Bed) -> None:
    bed.world.change_base(1, "other")
    bed.world.change_base(1, "main")


def push_of_another(bed: Bed) -> None:
    bed.world.push(1, bed.world.head(1), login="eve")


def hidden_pushes(bed: Bed) -> None:
    bed.world.hides_pushes = True


def open_by_another(bed: Bed) -> None:
    bed.world.pulls[1].author = "eve"
    bed.world.pulls[1].pushes = [(bed.world.head(1), "eve", bed.world.now)]


def approval_for_another(bed: Bed) -> None:
    open_by_another(bed)
    bed.world.approve(1, "ada-k")


def same_commit_twice(bed: Bed) -> None:
    bed.also(2, bed.world.head(1), "eve")


def renamed_account(bed: Bed) -> None:
    edit(bed.desk.place.root, MEMBERS, "login: ada-k", "login: ada-k#999999")
    bed.desk.place.merge()


def switch_off(bed: Bed) -> None:
    edit(bed.desk.place.root, "platform/platform.yaml", "  selfService: Enabled\n", "")
    bed.desk.place.merge()


def forged_comment(bed: Bed) -> None:
    bed.world.pulls[1].author = "eve"
    bed.world.pulls[1].pushes = [(bed.world.head(1), "eve", bed.world.now)]
    bed.world.say(1, "ada-k", "/merge approved")


@pytest.mark.parametrize(
    "abuse",
    [
        draft,
        close,
        retarget,
        retarget_and_return,
        push_of_another,
        hidden_pushes,
        open_by_another,
        approval_for_another,
        same_commit_twice,
        renamed_account,
        switch_off,
        forged_comment,
    ],
)
def test_nobody_borrows_a_right(bed: Bed, abuse: object) -> None:
    bed.desk.propose(1, *STOP)
    assert callable(abuse)
    abuse(bed)
    bed.round()
    bed.round()
    assert bed.world.merge_requests == []
    assert [pull.merged for pull in bed.world.pulls.values()] == [""] * len(bed.world.pulls)


def test_a_member_does_not_add_a_right_in_the_same_pull_request(bed: Bed) -> None:
    root = bed.desk.place.root
    git(root, "checkout", "-q", "-B", "change-1")
    edit(root, MEMBERS, "  users:\n", "  users:\n    - name: eve\n      role: Admin\n      login: eve\n")
    edit(root, WEBUI, *STOP)
    bed.desk.open(1, "eve")
    bed.round()
    assert bed.world.merge_requests == []


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("platform/plans/starter.yaml", "  selfService:\n", "  selfService:\n    maxMergesPerDay: 900\n"),
        ("platform/ownership.yaml", "- tenantRole: Admin", "- tenantRole: Member"),
        ("tenants/solo-ada/tenant.yaml", "plan: starter", "plan: enterprise"),
    ],
)
def test_a_policy_of_the_same_pull_request_waits(bed: Bed, path: str, old: str, new: str) -> None:
    root = bed.desk.place.root
    git(root, "checkout", "-q", "-B", "change-1")
    edit(root, path, old, new)
    edit(root, WEBUI, *STOP)
    bed.desk.open(1, "ada-k")
    bed.round()
    bed.world.approve(1, "pat")
    bed.world.pulls[1].updated = bed.world.tick()
    bed.round()
    assert bed.world.merge_requests == []
    assert "❌" in bed.world.bodies(1)[0] or f"it changes {path}, which no tenant changes alone" in waiting(bed)


def test_a_declined_merge_is_one_line_and_tried_again_later(bed: Bed) -> None:
    head = bed.desk.propose(1, *STOP)
    for _ in range(4):  # the comment makes a second attempt of two requests
        bed.world.fail("PUT .*merge", Answer(405, {"message": "Required status check is expected"}))
    bed.round()
    assert waiting(bed) == (
        "⚠️ It doesn't merge by itself: `the forge at "
        f"{bed.world.url} says 405: Required status check is expected: let the account of Allotment merge"
        " into main, or merge the pull request yourself`"
    )
    assert bed.desk.status(head) == "success"
    bed.round()
    assert bed.round() == [], "an unchanged pull request is left alone until the next attempt"
    bed.commenter._review_retry_at[1] = 0.0
    bed.round()
    assert bed.world.pulls[1].merged


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("call", ["POST .*statuses", "PUT .*merge", "POST .*comments"])
def test_a_cut_connection_merges_once_and_loses_nothing(bed: Bed, call: str, after: bool) -> None:
    bed.desk.propose(1, *STOP)
    bed.world.fail(call, None, after=after)
    for _ in range(4):
        bed.round()
    assert bed.world.pulls[1].merged
    assert len(bed.world.merge_requests) == 1
    assert len([body for body in bed.world.bodies(1) if body.startswith("<!-- allotment:plan -->")]) <= 1


def run_killed(desk: Desk, clone: Path, belongs: Callable[[str], bool], step: int, after: bool) -> str:
    """Run one round in a process that is killed at its `step`-th request about a pull request that writes.

    Return the request, before or after which it was killed; empty if the round ended.
    """
    calls: list[str] = []
    start, started = os.pipe()
    child = os.fork()
    if child == 0:  # the copy of the server in this process serves nobody: requests go to that of the test
        try:
            signal.alarm(120)
            os.read(start, 1)
            Bed(desk, clone).round()
        except BaseException:
            os._exit(1)
        os._exit(0)

    def take_fault(call: str, *, after: bool) -> Fault | None:
        if after is not moment or not belongs(call):
            return None
        calls.append(call)
        if len(calls) != step:
            return None
        os.kill(child, signal.SIGKILL)
        return Fault(call, None)

    moment = after
    # A fault of the server answers a request. This one also ends the process, so it replaces the method of this object.
    desk.world.take_fault = take_fault  # type: ignore[method-assign]  # for this object alone
    os.write(started, b"1")
    _, status = os.waitpid(child, 0)
    os.close(start)
    os.close(started)
    del desk.world.take_fault  # type: ignore[method-assign]  # the method of the class serves again
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), "the round failed, or took too long"
    return calls[-1] if code else ""


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_kill_at_any_write_merges_once_and_comments_at_most_once(bed: Bed, tmp_path: Path) -> None:
    world, clone, seen = bed.world, tmp_path / "clone", []
    for number in count(1):
        step, after = (number + 1) // 2, number % 2 == 0
        head = bed.desk.propose(number, *(START if after else STOP))

        def belongs(call: str, number: int = number, head: str = head) -> bool:
            return not call.startswith("GET") and (f"/{number}/" in call or head in call)

        seen.append(run_killed(bed.desk, clone, belongs, step, after))
        for _ in range(2):
            Bed(bed.desk, clone).round()
        assert world.pulls[number].merged
        assert len(world.merge_requests) == number
        plan_comments = [body for body in world.bodies(number) if body.startswith("<!-- allotment:plan -->")]
        assert len(plan_comments) <= 1, seen
        if seen[-2:] == ["", ""]:
            break
    assert len([call for call in seen if "/statuses/" in call]) >= 6, seen
    assert len([call for call in seen if call.endswith("/merge")]) == 2, seen
    assert len([call for call in seen if call.endswith("/comments")]) == 2, seen


def test_one_command_merges_nothing(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOT_FORGE_TOKEN", "s3cret-token")
    bed.desk.propose(1, *STOP)
    assert bed.desk.comment("--all").code == 0
    assert bed.world.merge_requests == []
