"""Plans a pull request in a separate process with limited time and memory.

Even if a pull request makes this process fail, the caller gets an answer and plans the next pull request. The process
is not forked, because the caller has threads. It gets no token.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import IO, Any, NamedTuple

from allotment.adapters.processes import POLL_SECONDS, memory_megabytes, terminate_group
from allotment.problems import AllotmentError, IsolationBroken, OperationRefused
from allotment.services.pull_requests.joint_claims import ClaimedUnits

MAX_STATUS_LENGTH = 140  # characters that every forge accepts in a commit status
TOO_LARGE = "too large or too slow: split it"
BASE_SECONDS = 900.0  # to read the base branch; not part of a pull request's budget
COMMAND = [sys.executable, "-P", "-m", "allotment.services.pull_requests.plan_sandbox"]
_READY = b"ready\n"
# The variables that the process gets. Every other variable of a CI job may hold a token.
_VARIABLES = re.compile(
    "PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|XDG_(CACHE|CONFIG)_HOME|LD_LIBRARY_PATH|PYTHON[A-Z]+"
    "|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)"
)
_PR_SET_PDEATHSIG = 1  # prctl(2)
_BUG_EXIT_STATUS = 70  # the exit status of this program after a bug


class PlanBudget(NamedTuple):
    """The budget of planning one pull request: seconds, and megabytes of memory for all processes together."""

    seconds: float = 120.0
    megabytes: float = 1024.0


class PlanRequest(NamedTuple):
    """The request for a plan of merging `head` into `base`, which are commits of the clone at `root`.

    The author, the pushers, the approvers and the members of teams are accounts in text form. `pushers` is None if the
    forge doesn't report them. `teams` maps the forge's teams to their members, None for a team that can't be read.
    `comment_bytes` is the size limit of a comment.
    """

    root: str
    base: str
    head: str
    day: str
    author: str
    pushers: list[str] | None
    approvers: list[str]
    teams: dict[str, list[str] | None]
    comment_bytes: int
    processes: int | None = None


class SelfServiceMerge(NamedTuple):
    """A merge without a second person: the tenant, its tariff plan, the kinds of change, and the checksum of the plan.

    `max_per_day` is the most such merges of the tenant in 24 hours.
    """

    tenant: str
    plan: str
    changes: list[str]
    checksum: str
    max_per_day: int


class PlanReply(NamedTuple):
    """The reply: whether the change may be merged, the verdict in words, and the comment.

    `merge` describes the merge if the change merges by itself; None if a person merges it. `claims` are the changes of
    claimed GPU units.
    """

    allowed: bool
    verdict: str
    text: str
    merge: SelfServiceMerge | None = None
    claims: tuple[ClaimedUnits, ...] = ()


class PlanBudgetExceeded(OperationRefused):
    """A pull request exceeded its budget."""


class _ProcessKilled(PlanBudgetExceeded):
    """A signal from outside this program ended the process."""


class BaseUnreadable(AllotmentError):
    """The base branch can't be read, or reading it takes too long or too much memory. No pull request is at fault."""


class PlanProcessBug(Exception):
    """The process ended because of a bug; the text of the exception is the traceback."""


def plan_in_sandbox(plan_request: PlanRequest, budget: PlanBudget, cache: Path | None = None) -> PlanReply:
    """Return the plan of a pull request.

    `cache` is the folder that stores the valid tenants of the base, by default the user's cache folder. If a signal
    ends the process, a second process gets the remaining time. The sender of the signal is unknown: the kernel may have
    killed the process to free memory for other work.

    Raises PlanBudgetExceeded, IsolationBroken, OperationRefused, BaseUnreadable or PlanProcessBug.
    """
    begun = time.monotonic()
    try:
        return _run_process(plan_request, budget, cache)
    except _ProcessKilled:
        remaining_seconds = budget.seconds - (time.monotonic() - begun)
        return _run_process(plan_request, budget._replace(seconds=max(1.0, remaining_seconds)), cache)


def _run_process(plan_request: PlanRequest, budget: PlanBudget, cache: Path | None) -> PlanReply:
    environment = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache.absolute())
    # The child process that plans puts its temporary files in `folder`. The parent deletes the folder, because a killed
    # child deletes nothing.
    with tempfile.TemporaryDirectory(prefix="allot-pull-") as folder, tempfile.TemporaryFile() as errors:
        environment["TMPDIR"] = folder
        process = subprocess.Popen(  # noqa: S603  # the command is fixed and runs this program
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        try:
            output = _read_reply(process, json.dumps(plan_request._asdict()).encode(), budget)
        finally:
            terminate_group(process)
            process.communicate()
        errors.seek(0)
        return _parse_reply(output, process.returncode, errors)


def _read_reply(process: subprocess.Popen[bytes], request: bytes, budget: PlanBudget) -> bytes:
    """Read the output of a process until the process ends, and return the output.

    Raises PlanBudgetExceeded or BaseUnreadable if the process exceeds its limits.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as file:
        file.write(request)
    process.stdin = None
    output, end = b"", time.monotonic() + BASE_SECONDS
    ready = False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(POLL_SECONDS):
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    return _wait_for_exit(process, output, end)
                output += part
            if not ready and output.startswith(_READY):
                ready, end = True, time.monotonic() + budget.seconds
            if time.monotonic() > end and not ready:
                raise BaseUnreadable(f"reading the base took longer than {BASE_SECONDS:g} seconds")
            if time.monotonic() > end:
                raise PlanBudgetExceeded(f"the plan took longer than {budget.seconds:g} seconds")
            if memory_megabytes(process.pid) > budget.megabytes:
                if not ready:
                    raise BaseUnreadable(f"reading the base took more than {budget.megabytes:g} MB of memory")
                raise PlanBudgetExceeded(f"the plan took more than {budget.megabytes:g} MB of memory")


def _wait_for_exit(process: subprocess.Popen[bytes], output: bytes, end: float) -> bytes:
    """Wait until a process that has closed its output ends. Return `output`.

    Raises PlanBudgetExceeded if the process doesn't end.
    """
    try:
        process.wait(max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise PlanBudgetExceeded("the plan didn't end") from None
    return output


def _parse_reply(output: bytes, status: int, errors: IO[bytes]) -> PlanReply:
    """Return the reply of a process. Raises an error if the output or the exit status reports a failure."""
    _, _, answer = output.partition(_READY)
    if status == 0:
        reply: dict[str, Any] = json.loads(answer)
        if "base" in reply:
            raise BaseUnreadable(f"the base can't be read: {reply['base']}")
        if "refused" in reply:
            raise (IsolationBroken if reply["isolation"] else OperationRefused)(reply["refused"])
        if "spent" in reply:
            raise PlanBudgetExceeded(reply["spent"])
        merge = reply.pop("merge", None)
        claims = tuple(ClaimedUnits(*claim) for claim in reply.pop("claims", ()))
        return PlanReply(**reply, merge=SelfServiceMerge(*merge) if merge else None, claims=claims)
    if status < 0:
        raise _ProcessKilled(f"its process was killed by {signal.Signals(-status).name}")
    raise PlanProcessBug(errors.read()[-20_000:].decode("utf-8", "replace"))


def _handle_request(plan_request: PlanRequest, ready: Any) -> dict[str, Any]:
    from functools import partial

    from allotment.adapters.file_cache import FileCache, cache_name
    from allotment.adapters.git.commit_source import CommitSource
    from allotment.adapters.git.ssh_signatures import SignaturesUnavailable
    from allotment.declared.people import parse_account
    from allotment.diff.merge_verdict import waiting_reasons
    from allotment.reports.plan.comment import render_comment
    from allotment.rules.ownership import Review
    from allotment.services.pull_requests import change_plan
    from allotment.services.pull_requests.merge_plan import ReviewContext

    root, day = Path(plan_request.root), datetime.date.fromisoformat(plan_request.day)
    open_cache = partial(FileCache.load, cache_name(root) + "-plan")
    try:
        first = change_plan.check_base(CommitSource(root, plan_request.base), day, open_cache, plan_request.processes)
    except OperationRefused as error:
        return {"base": str(error)}
    ready()
    teams = {
        team: None if members is None else frozenset(map(parse_account, members))
        for team, members in plan_request.teams.items()
    }
    pushers = None if plan_request.pushers is None else frozenset(map(parse_account, plan_request.pushers))
    review = Review(parse_account(plan_request.author), pushers, frozenset(map(parse_account, plan_request.approvers)))
    reviewed = ReviewContext(review, teams)
    try:
        plan_result = change_plan.plan_change(
            root,
            plan_request.base,
            plan_request.head,
            day,
            reviewed=reviewed,
            processes=plan_request.processes,
            first=first,
        )
    except SignaturesUnavailable as error:  # says nothing about the change
        return {"base": str(error)}
    except (IsolationBroken, OperationRefused) as error:
        return {"refused": str(error), "isolation": isinstance(error, IsolationBroken)}
    text = render_comment(plan_result, plan_request.comment_bytes)
    verdict = plan_result.summary_within(MAX_STATUS_LENGTH) if text.is_complete else "can't be merged: split it"
    if change_plan.is_too_large(plan_result):
        verdict = TOO_LARGE
    facts = plan_result.self_service
    merge = None
    if (
        facts
        and facts.policy
        and facts.is_reviewed
        and text.is_complete
        and plan_result.has_changes
        and not waiting_reasons(plan_result)
    ):
        merge = SelfServiceMerge(
            facts.tenants[0],
            facts.plan,
            list(facts.changes),
            plan_result.checksum,
            facts.policy.max_merges_per_day,
        )
    is_allowed = plan_result.is_allowed and text.is_complete
    claims = tuple(
        ClaimedUnits(units.cluster, units.gpu_spec, units.held_units - units.held_before, units.free)
        for units in plan_result.unit_changes
        if is_allowed
    )
    return PlanReply(is_allowed, verdict, text.text, merge, claims)._asdict()


def _exit_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends, because only the parent enforces the limits."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Read a request from standard input, and write the reply to standard output."""
    _exit_with_parent()
    # Ask the kernel to kill this process first if memory runs out. A system without this file rejects the write.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        reply = _handle_request(PlanRequest(**json.load(sys.stdin)), lambda: os.write(out, _READY))
    except MemoryError:
        reply = {"spent": "the plan took more than the available memory"}
    except Exception:
        traceback.print_exc()
        sys.exit(_BUG_EXIT_STATUS)
    with os.fdopen(out, "wb") as file:
        file.write(json.dumps(reply).encode())


if __name__ == "__main__":
    main()
