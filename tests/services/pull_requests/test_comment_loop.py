"""The rounds of who comments: what is reviewed again and what isn't, and what the forge doesn't take now. Cases 42 and 43."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.forge.server import Answer
from tests.adapters.git.malformed import write
from tests.conftest import edit
from tests.support import damage
from tests.support.brake_limits import GROUPS, brake
from tests.support.comment_desk import WEBUI
from tests.support.comment_loop_bed import Bed, bed
from tests.support.published import git

from allotment.adapters.forge.forge import ForgeUnreachable, PullRequest
from allotment.adapters.git import quarantine
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused
from allotment.services.pull_requests import comment_loop, plan_comment
from allotment.services.pull_requests.rollout_comment import RolloutCommenter

__all__ = ["bed"]  # a fixture


def test_a_round_in_which_nothing_changed_reviews_nothing(bed: Bed) -> None:
    bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    assert len(bed.round()) == 3, "that it waits, a verdict and a comment"
    bed.round()
    assert bed.round() == []
    assert not [call for call in bed.world.calls if "reviews" in call], "it isn't planned again"
    assert bed.metric("allotment_open_pull_requests") == 1
    assert bed.metric('allotment_comment_errors_total{reason="rate-limited"}') == 0


def test_an_approval_a_push_and_a_new_base_are_seen(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n", author="eve")
    bed.round()
    assert bed.desk.status(head) == "failure"
    bed.world.approve(1, "ada-k")
    bed.world.pulls[1].updated = bed.world.tick()
    bed.round()
    assert bed.desk.status(head) == "success"
    (bed.desk.place.root / WEBUI).write_text("nonsense")
    bed.desk.place.merge()
    bed.round()
    assert bed.desk.status(head) == "failure", "the base has changed the same lines"
    assert "conflicts with the base" in bed.world.bodies(1)[0]


def test_a_rate_limit_ends_the_round_and_the_next_comes_when_the_forge_says(bed: Bed) -> None:
    bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.world.fail("POST .*comments", Answer(429, {"message": "slow down"}, {"Retry-After": "2"}))
    bed.round()
    assert bed.log.events[-1][1]["reason"] == "rate-limited"
    assert not bed.world.bodies(1)
    begun = time.monotonic()
    bed.commenter.timing = bed.commenter.timing._replace(interval=0.1)
    import threading

    thread = threading.Thread(target=bed.commenter.run)
    thread.start()
    while not bed.world.bodies(1) and time.monotonic() - begun < 120:
        time.sleep(0.05)
    bed.commenter.stop()
    thread.join()
    assert len(bed.world.bodies(1)) == 1
    assert time.monotonic() - begun >= 1.5
    assert bed.commenter.ready() and bed.commenter.alive(), "a forge that is away restarts nobody"


def test_a_bug_with_one_leaves_no_other_without_a_verdict(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = bed.desk.propose(1, "spec:\n", "spec:\n  description: Bad.\n")
    good = bed.desk.propose(2, "spec:\n", "spec:\n  description: Good.\n")
    real = plan_comment.run_plan

    def broken(root: Path, base: str, head: str, *words: Any, **more: Any) -> Any:
        if head == bad:
            raise ZeroDivisionError("ours")
        return real(root, base, head, *words, **more)

    monkeypatch.setattr(plan_comment, "run_plan", broken)
    bed.round()
    assert (bed.desk.status(good), bed.desk.status(bad)) == ("success", "pending")
    events = [about for event, about in bed.log.events if event == "no verdict"]
    assert [fields["number"] for fields in events] == [1]
    bed.round()
    assert len([event for event, _ in bed.log.events if event == "no verdict"]) == 1, "told once"


def test_a_pull_request_that_the_forge_hides_is_left_and_the_others_go_on(bed: Bed) -> None:
    bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    good = bed.desk.propose(2, "spec:\n", "spec:\n  description: Good.\n")
    bed.world.fail("GET .*/pulls/1$", Answer(404, {"message": "Not Found"}))
    bed.round()
    assert bed.desk.status(good) == "success"


def test_a_forge_that_is_away_is_told_once_and_tried_again(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    for _ in range(2):
        bed.world.fail("GET .*/pulls$", Answer(502, {"message": "Bad gateway"}))
        bed.round()
    assert [event for event, _ in bed.log.events].count("no comments") == 1
    bed.round()
    assert bed.desk.status(head) == "success"


def test_the_loop_reviews_pull_requests_while_the_rendered_remote_fails(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed.round()
    assert bed.commenter._services is not None
    rollouts = bed.commenter._services.rollout_commenter
    bed.desk.propose(1, "spec:\n", "spec:\n  description: Merged.\n")
    bed.desk.merge(1)
    monkeypatch.setattr(rollouts, "_rendered_remote", Remote(Repository(bed.desk.place.root), "/nowhere/rendered.git"))
    head = bed.desk.propose(2, "Merged", "Open")
    bed.round()
    assert bed.desk.status(head) == "success"
    assert bed.log.events[-1][1]["reason"] == "refused"


@pytest.mark.parametrize("kind", [ZeroDivisionError, ForgeUnreachable, OperationRefused])
def test_a_merge_that_cannot_be_followed_keeps_no_other_from_it(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    for number, field in ((1, "description"), (2, "displayName")):
        bed.desk.propose(number, "spec:\n", f"spec:\n  {field}: Mine\n")
        bed.desk.merge(number)
    real = RolloutCommenter._find_changes

    def broken(self: RolloutCommenter, request: PullRequest) -> Any:
        if request.number == 2:
            raise kind("not this one")
        return real(self, request)

    monkeypatch.setattr(RolloutCommenter, "_find_changes", broken)
    bed.round()
    bed.round()
    assert (len(bed.desk.rollouts(1)), len(bed.desk.rollouts(2))) == (1, 0)
    assert [(event, about["number"]) for event, about in bed.log.events] == [("no rollout", 2)], "told once"
    assert bed.metric("allotment_followed_rollouts") == 2


def test_a_merge_whose_date_is_none_keeps_nobody_from_a_verdict(bed: Bed) -> None:
    """Where the forge merges by fast-forward, who proposed it wrote the commit."""
    root = bed.desk.place.root
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    tree, base = git(root, "rev-parse", f"{head}^{{tree}}"), git(root, "rev-parse", "main")
    text = f"tree {tree}\nparent {base}\nauthor a <a@b.example> 1 +0000\ncommitter a\n\nx\n"
    odd = write(root, "commit", text.encode())
    git(root, "push", "-q", "-f", "origin", f"{odd}:refs/heads/main", f"{odd}:refs/pull/1/head")
    bed.world.pulls[1].head = odd
    bed.world.merge(1, odd)
    git(root, "reset", "-q", "--hard", odd)
    other = bed.desk.propose(2, "spec:\n", "spec:\n  displayName: Other\n")
    bed.round()
    assert bed.desk.status(other) == "success"


@pytest.mark.parametrize("status", [403, 422, 502])
@pytest.mark.parametrize("what", ["statuses", "comments"])
def test_a_refused_write_prevents_no_verdict_on_another_pull_request(bed: Bed, what: str, status: int) -> None:
    """GitHub takes a thousand statuses of a commit and context, and then no more for ever."""
    other = bed.desk.propose(2, "spec:\n", "spec:\n  description: Mine.\n")
    head = bed.desk.propose(1, "spec:\n", "spec:\n  displayName: Refused\n")
    for _ in range(3):
        path = f"POST .*statuses/{head}" if what == "statuses" else "POST .*/1/comments"
        bed.world.fail(path, Answer(status, {"message": "This SHA has the maximum number of statuses."}))
    bed.round()
    assert bed.desk.status(other) == "success"
    assert [about["number"] for event, about in bed.log.events if event == "no verdict"] == [1]


def test_the_loop_repeats_a_declined_plan_after_an_update_or_a_delay(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[str] = []
    real = plan_comment.run_plan
    monkeypatch.setattr(
        plan_comment, "run_plan", lambda *words, **options: (plans.append(words[2]), real(*words, **options))[1]
    )
    bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    for _ in range(3):
        bed.world.fail("POST .*/1/comments", Answer(403, {"message": "user is blocked"}))
    for _ in range(3):
        bed.round()
    assert len(plans) == 1
    bed.world.pulls[1].updated = bed.world.tick()
    bed.round()
    assert len(plans) == 2
    monkeypatch.setattr(comment_loop, "RETRY_SECONDS", 0)
    bed.world.pulls[1].updated = bed.world.tick()
    bed.round()
    assert (len(plans), bed.world.bodies(1)) == (3, [])
    bed.round()
    assert (len(plans), len(bed.world.bodies(1))) == (4, 1)
    bed.round()
    bed.round()
    assert len(plans) == 5, "our own comment changed it once"


def test_the_loop_demands_to_split_a_pull_request_too_large_to_fetch(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.round()
    monkeypatch.setattr(quarantine, "MOST_BYTES", -1)
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.desk.place.merge()
    bed.round()
    assert bed.world.statuses[head][-1]["description"] == "too large or too slow: split it"
    assert "fetching it: it has more than" in bed.world.bodies(1)[0]
    assert bed.round() == []


def test_a_head_that_cannot_be_fetched_keeps_no_other_from_a_verdict(bed: Bed) -> None:
    remote = bed.desk.place.remote
    who = "a <a@b.example> 1 +0000"
    text = f"tree {'1' * 40}\nparent {git(remote, 'rev-parse', 'main')}\nauthor {who}\ncommitter {who}\n\nx\n"
    broken = write(remote, "commit", text.encode())
    git(remote, "update-ref", "refs/pull/1/head", broken)
    bed.world.open(1, broken, "eve")
    head = bed.desk.propose(2, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    assert (bed.desk.status(broken), bed.desk.status(head)) == ("pending", "success")
    (event_fields,) = (about for event, about in bed.log.events if event == "no verdict")
    assert (event_fields["number"], "doesn't answer" in event_fields["message"]) == (1, True)


def test_a_token_that_is_none_any_more_ends_the_round(bed: Bed) -> None:
    heads = [bed.desk.propose(n, "spec:\n", f"spec:\n  description: The {n}.\n") for n in (1, 2)]
    bed.world.fail("GET .*/reviews", Answer(401, {"message": "Bad credentials"}))
    bed.round()
    assert [bed.desk.status(head) for head in heads] == ["pending", "pending"]
    assert bed.log.events[-1][1]["reason"] == "forge"


def test_a_merge_of_documents_alone_is_not_followed(bed: Bed) -> None:
    root = bed.desk.place.root
    git(root, "checkout", "-q", "-B", "change-1")
    (root / "NOTES.md").write_text("Nothing that runs.")
    git(root, "add", "-A")
    git(root, "-c", "user.name=a", "-c", "user.email=a@northlight.example", "commit", "-q", "-m", "x")
    head = git(root, "rev-parse", "HEAD")
    git(root, "push", "-q", "origin", "HEAD:refs/pull/1/head")
    bed.world.open(1, head, "ada-k")
    git(root, "checkout", "-q", "main")
    bed.desk.merge(1)
    assert bed.round() == []


def test_a_commit_of_several_pull_requests_has_the_worst_verdict(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    assert bed.desk.status(head) == "success"
    bed.also(2, head, "eve")
    bed.round()
    assert bed.desk.status(head) == "failure", "eve may not merge under ada's verdict"
    assert "### ✅" in bed.world.bodies(1)[0]
    assert "### ❌" in bed.world.bodies(2)[0]
    assert bed.round() == []
    bed.world.approve(2, "ada-k")
    bed.world.pulls[2].updated = bed.world.tick()
    bed.round()
    assert bed.desk.status(head) == "success"
    assert "### ✅" in bed.world.bodies(2)[0]


def test_the_status_names_who_turns_it_red_and_is_green_when_that_is_closed(bed: Bed) -> None:
    head = bed.desk.propose(3, "spec:\n", "spec:\n  description: Mine.\n")
    bed.also(7, head, "eve")
    bed.commenter.tick()
    assert bed.desk.status(head) == "failure"
    assert bed.world.statuses[head][-1]["description"].startswith("#3, #7 have this commit; #7: can't be merged")
    bed.world.close_pull(7)
    bed.round()
    assert bed.desk.status(head) == "success"
    assert bed.world.statuses[head][-1]["description"] == "can be merged · 1 changed"


def test_a_crowd_of_one_commit_is_no_way_to_keep_us_busy(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_comment, "MAX_SAME_HEAD", 2)
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    for number in (2, 3, 4):
        bed.also(number, head, "ada-k")
    bed.round()
    assert bed.desk.status(head) == "failure"
    description = bed.world.statuses[head][-1]["description"]
    assert description == "#1, #2 and more have this commit; #1: more than 2 pull requests have this commit: close some"
    assert bed.round() == []


def test_the_loop_sets_a_pending_status_on_new_heads_before_any_fetch(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = [bed.desk.propose(n, "spec:\n", f"spec:\n  description: The {n}.\n") for n in (1, 2)]
    for _ in heads:
        bed.world.fail("GET .*/reviews", Answer(502, {"message": "Bad gateway"}))
    bed.round()
    assert [[status["state"] for status in bed.world.statuses[head]] for head in heads] == [["pending"], ["pending"]]
    bed.round()
    retry_time = 0.0
    monkeypatch.setattr(bed.commenter, "_retry_at", retry_time)
    bed.round()
    assert [bed.desk.status(head) for head in heads] == ["success", "success"]
    real, order = bed.commenter._services, []
    assert real is not None
    fetch = real.pull_source.remote.fetch
    monkeypatch.setattr(
        real.pull_source.remote, "fetch", lambda *names: (order.append(len(bed.world.writes())), fetch(*names))[1]
    )
    new = bed.desk.propose(1, "spec:\n", "spec:\n  displayName: Mine\n")
    calls = bed.round()
    assert order[0] == 2, "the first that is done is to say so"
    assert [call.rpartition("/")[2] for call in calls[:2]] == [new, heads[0]]


def test_another_one_of_a_commit_that_was_found_good_takes_that_back_at_once(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    bed.also(2, head, "eve")
    bed.world.fail("GET .*/reviews", Answer(502, {"message": "Bad gateway"}))
    bed.round()
    assert bed.desk.status(head) == "pending", "eve may not merge under ada's verdict meanwhile"


def test_a_comment_or_a_new_base_takes_nothing_back(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    bed.world.say(1, "eve", "Hm.")
    bed.desk.place.merge()
    bed.round()
    assert [status["state"] for status in bed.world.statuses[head]] == ["pending", "success"]


def test_a_push_by_another_account_requires_an_approval(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.world.pulls[1].pushes.append((head, "eve", bed.world.tick()))
    bed.round()
    assert bed.desk.status(head) == "failure"
    assert "'eve', who pushed to it, may not change this file: it needs an approval" in bed.world.bodies(1)[0]
    bed.world.approve(1, "pat")
    bed.world.approve(1, "ada-k")
    bed.world.pulls[1].updated = bed.world.tick()
    bed.round()
    assert bed.desk.status(head) == "success", "ada approves what eve pushed"


def test_a_head_of_which_nobody_knows_who_pushed_it_takes_an_approval(bed: Bed) -> None:
    bed.world.hides_pushes = True
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    assert bed.desk.status(head) == "failure"
    assert "are unknown, and it changes this file" in bed.world.bodies(1)[0]
    bed.world.approve(1, "ada-k")
    bed.world.pulls[1].updated = bed.world.tick()
    bed.round()
    assert bed.desk.status(head) == "success"


def test_a_declared_id_excludes_a_new_account_with_the_same_login(bed: Bed) -> None:
    members = "tenants/solo-ada/members.yaml"
    edit(bed.desk.place.root, members, "login: ada-k", f"login: ada-k#{bed.world.id('ada-k')}")
    bed.desk.place.merge()
    mine = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    assert bed.desk.status(mine) == "success"
    bed.world.accounts["ada-k"] = 666
    theirs = bed.desk.propose(2, "spec:\n", "spec:\n  description: Theirs.\n")
    bed.round()
    assert bed.desk.status(theirs) == "failure"
    assert "'ada-k#666' may not change this file: its author" in bed.world.bodies(2)[0]


def withdraw(bed: Bed) -> None:
    bed.world.close_pull(1)


def move_on(bed: Bed) -> None:
    bed.desk.propose(1, "spec:\n", "spec:\n  displayName: Other\n")


def change_base(bed: Bed) -> None:
    bed.world.pulls[1].base = "elsewhere"


@pytest.mark.parametrize("leave", [withdraw, move_on, change_base])
def test_a_commit_that_is_withdrawn_waits_again(bed: Bed, leave: Callable[[Bed], None]) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    assert bed.desk.status(head) == "success"
    leave(bed)
    bed.world.fail("GET .*/pulls/1$", Answer(502, {"message": "Bad gateway"}))
    bed.round()
    bed.round()
    assert bed.desk.status(head) == "pending"
    assert bed.world.statuses[head][-1]["description"] == "no open pull request has this commit"
    assert bed.round() == []
    bed.also(2, head, "ada-k")
    bed.round()
    assert bed.desk.status(head) == "success"


def test_a_commit_that_was_merged_or_is_somebody_elses_too_is_not_withdrawn(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.also(2, head, "ada-k")
    bed.round()
    bed.world.close_pull(2)
    bed.round()
    bed.desk.merge(1)
    bed.round()
    assert [status["state"] for status in bed.world.statuses[head] if status["context"] == "allot/plan"][1:] == [
        "success"
    ] * 2


@pytest.mark.process
def test_endless_twin_pull_requests_end_in_a_failure_status(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_comment, "MAX_STATUSES", 8)
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    for number in range(2, 7):
        bed.round()
        bed.also(number, head, "eve")
        bed.round()
        bed.world.close_pull(number)
    bed.round()
    assert len(bed.world.statuses[head]) == 9
    assert bed.desk.status(head) == "failure"
    assert bed.world.statuses[head][-1]["description"].endswith(
        "statuses are the limit for a commit: push a new commit"
    )
    assert bed.round() == []


def test_another_branch_is_none_of_ours(bed: Bed) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.also(2, head, "eve", base="elsewhere")
    bed.round()
    assert bed.desk.status(head) == "success"
    assert bed.world.bodies(2) == []


@pytest.mark.parametrize("harm", damage.DAMAGES)
def test_a_damaged_clone_is_fetched_again_and_comments(bed: Bed, tmp_path: Path, harm: Callable[[Path], None]) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    bed.round()
    harm(tmp_path / "clone")
    second = bed.desk.propose(1, "spec:\n", "spec:\n  description: Ours.\n")
    for _ in range(3):
        bed.commenter._retry_at = 0.0
        bed.round()
    assert second != head
    assert bed.desk.status(second) == "success"
    assert [event for event, _ in bed.log.events].count("clone replaced") == 1


def test_locks_that_a_killed_git_left_keep_no_comment_back(bed: Bed, tmp_path: Path) -> None:
    bed.round()
    damage.leave_locks(tmp_path / "clone")
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    for _ in range(2):
        bed.commenter._retry_at = 0.0
        bed.round()
    assert bed.desk.status(head) == "success"


def test_a_verdict_counts_what_was_deleted_and_published_within_the_day(bed: Bed) -> None:
    """Two of four instances are gone for an hour; a third is one too many, although each merge looks small."""
    place = bed.desk.place
    brake(place, 60, 4)
    place.merged(hours_ago=20)
    for path in GROUPS[:2]:
        (place.root / path).unlink()
        assert place.merged(hours_ago=1).code == 0
    git(place.root, "checkout", "-q", "-b", "third")
    (place.root / GROUPS[2]).unlink()
    git(place.root, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-a", "-m", "Delete")
    head = git(place.root, "rev-parse", "HEAD")
    git(place.root, "checkout", "-q", "main")
    bed.also(1, head, "pat")
    bed.round()
    assert bed.desk.status(head) == "failure"
    words = "3 of 4 instances of tenant uni-lab would be deleted within 24 hours, more than 60 %"
    assert words in bed.world.bodies(1)[0]
