"""Plans a pull request in a process of its own, which has so much time and memory and no more.

Whatever a pull request does to that process, who asked gets an answer, and the next one is planned. It isn't
forked, since who asks has threads, and it is given no token.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import IO, Any, NamedTuple

from allotment.adapters.processes import LOOK, end_group, megabytes
from allotment.problems import AllotmentError, IsolationBroken, Refused

MOST_VERDICT = 140  # characters that every forge takes of a commit status
TOO_MUCH = "too large or too slow: split it"
BASE_SECONDS = 900.0  # for what the base branch holds, which is nobody's pull request
COMMAND = [sys.executable, "-P", "-m", "allotment.pipeline.pulls.apart"]
_READY = b"ready\n"
_SECRETS = ("ALLOT_FORGE_TOKEN", "ALLOT_FORGE_TOKEN_FILE", "ALLOT_WEBHOOK_SECRET_FILE")
_PR_SET_PDEATHSIG = 1  # prctl(2)
_BUG = 70  # an exit status of ours


class PlanBudget(NamedTuple):
    """What planning one pull request may take: seconds, and megabytes of memory of all its processes together."""

    seconds: float = 120.0
    megabytes: float = 1024.0


class Asked(NamedTuple):
    """What is to be planned: two commits of a clone, on a day; who made and approved it; the bytes a comment may have.

    People are accounts as they are written; `pushers` is None where the forge doesn't say. `teams` has who is in
    the forge's teams, None for one that could not be read.
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


class Planned(NamedTuple):
    """What came of it: whether it may be merged, the verdict in words, and the comment."""

    allowed: bool
    verdict: str
    text: str


class Spent(Refused):
    """A pull request took more than its budget."""


class _Ended(Spent):
    """A signal ended the process, and it wasn't ours."""


class BaseUnread(AllotmentError):
    """The base branch can't be read, or takes too long: no fault of any pull request's."""


class Bug(Exception):
    """The process ended by a bug of ours; the text is its traceback."""


def plan(plan_request: Asked, budget: PlanBudget, cache: Path | None = None) -> Planned:
    """Return the plan of a pull request. Raises Spent, IsolationBroken, Refused, BaseUnread and Bug.

    What was found fine of the base is remembered in `cache`, or else in the user's cache folder. A process that a
    signal ended is tried once more, with what is left of the budget: who sent it isn't known, and may have needed
    memory for something else.
    """
    begun = time.monotonic()
    try:
        return _plan(plan_request, budget, cache)
    except _Ended:
        remaining_seconds = budget.seconds - (time.monotonic() - begun)
        return _plan(plan_request, budget._replace(seconds=max(1.0, remaining_seconds)), cache)


def _plan(plan_request: Asked, budget: PlanBudget, cache: Path | None) -> Planned:
    environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    if cache is not None:
        environment["XDG_CACHE_HOME"] = str(cache)
    # What a process that is killed leaves of its own folders goes with this one.
    with tempfile.TemporaryDirectory(prefix="allot-pull-") as folder, tempfile.TemporaryFile() as errors:
        environment["TMPDIR"] = folder
        process = subprocess.Popen(  # noqa: S603  # this program
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            start_new_session=True,
        )
        try:
            output = _heard(process, json.dumps(plan_request._asdict()).encode(), budget)
        finally:
            end_group(process)
            process.communicate()
        errors.seek(0)
        return _meant(output, process.returncode, errors)


def _heard(process: subprocess.Popen[bytes], request: bytes, budget: PlanBudget) -> bytes:
    """Return all that a process says until it ends. Raises Spent where it takes too much."""
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
            if selector.select(LOOK):
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    return _ended(process, output, end)
                output += part
            if not ready and output.startswith(_READY):
                ready, end = True, time.monotonic() + budget.seconds
            if time.monotonic() > end and not ready:
                raise BaseUnread(f"the base took longer than {BASE_SECONDS:g} seconds to be read")
            if time.monotonic() > end:
                raise Spent(f"it took longer than {budget.seconds:g} seconds")
            if megabytes(process.pid) > budget.megabytes:
                raise Spent(f"it took more than {budget.megabytes:g} MB of memory")


def _ended(process: subprocess.Popen[bytes], output: bytes, end: float) -> bytes:
    """Return what a process said that says no more, once it has ended. Raises Spent where it doesn't."""
    try:
        process.wait(max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise Spent("it didn't end") from None
    return output


def _meant(output: bytes, status: int, errors: IO[bytes]) -> Planned:
    """Return what a process said. One that was killed said nothing."""
    _, _, answer = output.partition(_READY)
    if status == 0:
        reply: dict[str, Any] = json.loads(answer)
        if "base" in reply:
            raise BaseUnread(f"the base can't be read: {reply['base']}")
        if "refused" in reply:
            raise (IsolationBroken if reply["isolation"] else Refused)(reply["refused"])
        if "spent" in reply:
            raise Spent(reply["spent"])
        return Planned(**reply)
    if status < 0:
        raise _Ended(f"its process was ended by {signal.Signals(-status).name}")
    raise Bug(errors.read()[-20_000:].decode("utf-8", "replace"))


def _answer(plan_request: Asked, ready: Any) -> dict[str, Any]:
    from functools import partial

    from allotment.adapters.git.commit_source import CommitSource
    from allotment.adapters.memory import Memory, memory_name
    from allotment.declared.people import account
    from allotment.pipeline.pulls import planning
    from allotment.pipeline.pulls.merge_plan import Reviewed
    from allotment.reports.plan.comment import comment
    from allotment.rules.ownership import Review

    root, day = Path(plan_request.root), datetime.date.fromisoformat(plan_request.day)
    recall = partial(Memory.load, memory_name(root) + "-plan")
    try:
        first = planning.surveyed(CommitSource(root, plan_request.base), day, recall, plan_request.processes)
    except Refused as error:
        return {"base": str(error)}
    ready()
    teams = {
        team: None if members is None else frozenset(map(account, members))
        for team, members in plan_request.teams.items()
    }
    pushers = None if plan_request.pushers is None else frozenset(map(account, plan_request.pushers))
    review = Review(account(plan_request.author), pushers, frozenset(map(account, plan_request.approvers)))
    reviewed = Reviewed(review, teams)
    try:
        plan_result = planning.plan(
            root,
            plan_request.base,
            plan_request.head,
            day,
            reviewed=reviewed,
            processes=plan_request.processes,
            first=first,
        )
    except (IsolationBroken, Refused) as error:
        return {"refused": str(error), "isolation": isinstance(error, IsolationBroken)}
    text = comment(plan_result, plan_request.comment_bytes)
    verdict = plan_result.summary_within(MOST_VERDICT) if text.whole else "can't be merged: split it"
    if planning.is_too_large(plan_result):
        verdict = TOO_MUCH
    return Planned(plan_result.allowed and text.whole, verdict, text.text)._asdict()


def _end_with_parent() -> None:
    """Ask the system to end this process with the one that began it, which alone looks what it takes."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Answer what standard input asks, on standard output, and end."""
    _end_with_parent()
    with contextlib.suppress(OSError):  # where memory runs out, this one ends and nobody else
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        reply = _answer(Asked(**json.load(sys.stdin)), lambda: os.write(out, _READY))
    except MemoryError:
        reply = {"spent": "it took more memory than there is"}
    except Exception:
        traceback.print_exc()
        sys.exit(_BUG)
    with os.fdopen(out, "wb") as file:
        file.write(json.dumps(reply).encode())


if __name__ == "__main__":
    main()
