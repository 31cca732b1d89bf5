"""A pull request is planned apart: whatever it does to that process it gets a verdict, and so does the next one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.adapters.forge.server import GitHubWorld
from tests.conftest import Allot
from tests.support.comment_desk import Desk
from tests.support.comment_loop_bed import Bed
from tests.support.published import Place, git

from allotment.services.pull_requests import plan_sandbox
from allotment.services.pull_requests.plan_sandbox import (
    TOO_LARGE,
    PlanBudget,
    PlanBudgetExceeded,
    PlanProcessBug,
    PlanReply,
    PlanRequest,
)

pytestmark = pytest.mark.process


MEGABYTES = 300.0
# Planning as it is, but for one head, of which it does something else; what it says of the base comes first.
SCRIPT = """
import json, os, signal, subprocess, sys, time
from allotment.services.pull_requests import change_plan
real = change_plan.plan_change
def plan(root, base, head, *words, **more):
    if head == {head!r}:
        {deed}
    return real(root, base, head, *words, **more)
change_plan.plan_change = plan
from allotment.services.pull_requests import plan_sandbox
plan_sandbox.main()
"""
DEEDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "crashed": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hangs": "time.sleep(600)",
    "hangs and hears nothing": "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
    "works without end": "while True: pass",
    "grows": "kept = []\n        while True: kept.append(b'x' * (1 << 22)); time.sleep(0.001)",
    "grows in another": (
        "subprocess.run([sys.executable, '-c', 'import time; kept = b\"x\" * (1 << 29); time.sleep(600)'], check=False)"
    ),
    "out of memory": "raise MemoryError",
}


@pytest.fixture
def bed(small: Place, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """Return a commenter whose plans get little memory."""
    world = GitHubWorld()
    world.teams["@northlight-example/platform"] = ["pat"]
    _limit(monkeypatch, MEGABYTES)
    yield Bed(Desk(small, world, allot), tmp_path / "clone")
    world.close()


def _limit(monkeypatch: pytest.MonkeyPatch, megabytes: float, hurried: str = "") -> None:
    """Limit the memory of each plan, and give the plan of the commit `hurried` two seconds. Others have minutes."""
    plan = plan_sandbox.plan_in_sandbox

    def limited(request: PlanRequest, budget: PlanBudget, cache: Path | None = None) -> PlanReply:
        seconds = 2.0 if request.head == hurried else budget.seconds
        return plan(request, PlanBudget(seconds, megabytes), cache)

    monkeypatch.setattr(plan_sandbox, "plan_in_sandbox", limited)


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS.keys())
def test_a_failing_plan_process_gets_a_verdict_and_blocks_no_other_plan(
    deed: str, bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = bed.desk.propose(1, "spec:\n", "spec:\n  description: Bad.\n")
    good = bed.desk.propose(2, "spec:\n", "spec:\n  description: Good.\n")
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=bad, deed=deed)])
    _limit(monkeypatch, MEGABYTES, hurried=bad)
    bed.round()
    assert (bed.desk.status(bad), bed.desk.status(good)) == ("failure", "success")
    assert bed.world.statuses[bad][-1]["description"] == TOO_LARGE
    (body,) = bed.world.bodies(1)
    assert "The plan of this change is too large or too slow: split the change" in body


def test_the_loop_reports_an_excessive_plan_once(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = bed.desk.propose(1, "spec:\n", "spec:\n  description: Bad.\n")
    monkeypatch.setattr(
        plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=bad, deed=DEEDS["out of memory"])]
    )
    bed.round()
    assert bed.desk.status(bad) == "failure"
    assert bed.round() == [], "nothing is said again until something is new"


def test_one_that_somebody_else_killed_is_planned_again(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = bed.desk.propose(1, "spec:\n", "spec:\n  description: Mine.\n")
    sign = tmp_path / "killed"
    deed = f"os.path.exists({str(sign)!r}) or (open({str(sign)!r}, 'x').close(), os.kill(os.getpid(), signal.SIGKILL))"
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=head, deed=deed)])
    bed.round()
    assert sign.exists()
    assert bed.desk.status(head) == "success"


def test_the_sandbox_ends_the_child_processes_of_a_plan(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = tmp_path / "alive"
    script = f"while True:\n    open({str(sign)!r}, 'a').write('x')\n    time.sleep(0.05)"
    deed = (
        f"subprocess.Popen([sys.executable, '-c', {'import time' + chr(10) + script!r}])\n"
        f"        while not os.path.exists({str(sign)!r}): time.sleep(0.01)\n"
        f"        {DEEDS['grows']}"
    )
    bad = bed.desk.propose(1, "spec:\n", "spec:\n  description: Bad.\n")
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=bad, deed=deed)])
    bed.round()
    size = sign.stat().st_size
    assert size
    time.sleep(0.5)
    assert sign.stat().st_size == size


def test_the_time_of_the_base_check_counts_against_no_pull_request(
    bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = bed.desk.propose(1, "spec:\n", "spec:\n  description: Good.\n")
    begun, passed = tmp_path / "begun", tmp_path / "passed"

    def monotonic() -> float:
        if not begun.exists():
            return time.monotonic()
        passed.touch()
        return time.monotonic() + 2 * PlanBudget().seconds

    slow = SCRIPT.format(head="", deed="pass").replace(
        "change_plan.plan_change = plan",
        "change_plan.plan_change = plan\ncheck = change_plan.check_base\ndef check_slowly(*words):\n"
        f"    open({str(begun)!r}, 'x').close()\n    while not os.path.exists({str(passed)!r}): time.sleep(0.01)\n"
        "    return check(*words)\nchange_plan.check_base = check_slowly",
    )
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", slow])
    monkeypatch.setattr(plan_sandbox, "time", SimpleNamespace(monotonic=monotonic))
    bed.round()
    assert passed.exists()
    assert bed.desk.status(good) == "success"


def test_a_base_that_takes_too_much_memory_fails_no_pull_request(small: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = SCRIPT.format(head="", deed="pass").replace(
        "change_plan.plan_change = plan",
        "change_plan.plan_change = plan\nmemory = b'x' * (1 << 29)\n"
        "change_plan.check_base = lambda *words: time.sleep(600)",
    )
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", grown])
    with pytest.raises(plan_sandbox.BaseUnreadable, match="reading the base took more than 300 MB of memory"):
        plan_sandbox.plan_in_sandbox(_asked(small, git(small.root, "rev-parse", "main")), PlanBudget(60, MEGABYTES))


def _asked(small: Place, head: str) -> PlanRequest:
    base = git(small.root, "rev-parse", "main")
    return PlanRequest(
        root=str(small.root),
        base=base,
        head=head,
        day="2026-11-21",
        author="ada-k",
        pushers=[],
        approvers=[],
        teams={},
        comment_bytes=60_000,
    )


def test_a_signature_that_cannot_be_checked_is_no_verdict(small: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(small.root, "rev-parse", "main")
    deed = "from allotment.adapters.git.ssh_signatures import SignaturesUnavailable as No; raise No('ssh-keygen fails')"
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=head, deed=deed)])
    with pytest.raises(plan_sandbox.BaseUnreadable, match="ssh-keygen fails"):
        plan_sandbox.plan_in_sandbox(_asked(small, head), PlanBudget())


def test_a_bug_of_ours_is_told_as_one(small: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(small.root, "rev-parse", "main")
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=head, deed="1 / 0")])
    with pytest.raises(PlanProcessBug, match="ZeroDivisionError"):
        plan_sandbox.plan_in_sandbox(_asked(small, head), PlanBudget())


def test_no_token_goes_along(small: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(small.root, "rev-parse", "main")
    for name in ("ALLOT_FORGE_TOKEN", "ALLOT_TOKEN", "CI_JOB_TOKEN", "GIT_CONFIG_VALUE_0"):
        monkeypatch.setenv(name, "s3cret")
    deed = "raise ValueError(sorted(name for name, value in os.environ.items() if 's3cret' in value))"
    monkeypatch.setattr(plan_sandbox, "COMMAND", [sys.executable, "-c", SCRIPT.format(head=head, deed=deed)])
    with pytest.raises(PlanProcessBug, match=r"ValueError: \[\]"):
        plan_sandbox.plan_in_sandbox(_asked(small, head), PlanBudget())


def test_slow_files_are_ended_in_time(small: Place) -> None:
    git(small.root, "checkout", "-q", "-b", "slow")
    folder = small.root / "tenants/solo-ada/instances"
    for n in range(60):
        head = f"apiVersion: allotment.dev/v1alpha1\nkind: GPUInstance\nmetadata:\n  name: bad-{n}\nspec:\n  x: ["
        (folder / f"bad-{n}.yaml").write_text(head + "a,  " * 15_000)
    small.merge()
    head = git(small.root, "rev-parse", "HEAD")
    git(small.root, "checkout", "-q", "main")
    with pytest.raises(PlanBudgetExceeded, match="longer than 2 seconds"):
        plan_sandbox.plan_in_sandbox(_asked(small, head), PlanBudget(seconds=2))


def test_a_change_of_too_many_bytes_is_not_planned(small: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    git(small.root, "checkout", "-q", "-b", "large")
    (small.root / "NOTES.md").write_bytes(b"x" * (65 << 20))
    git(small.root, "add", "-A")
    git(small.root, "-c", "user.name=a", "-c", "user.email=a@northlight.example", "commit", "-q", "-m", "x")
    reply = plan_sandbox.plan_in_sandbox(_asked(small, git(small.root, "rev-parse", "HEAD")), PlanBudget())
    assert (reply.allowed, reply.verdict) == (False, TOO_LARGE)
    assert "the change writes more than 64 MiB of files: split it" in reply.text
