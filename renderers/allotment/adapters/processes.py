"""Processes with a budget: what one and those that it started take, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

LOOK = 0.05  # seconds between two looks at the memory


class Limit(NamedTuple):
    """What a process may take: seconds, and megabytes of memory of all that it starts together."""

    seconds: float
    megabytes: float


class Exceeded(Exception):
    """A process took more than its limit; the words say what."""


def megabytes(pid: int) -> float:
    """Return the memory that a process and those that it started hold for themselves; 0 where the system doesn't say."""
    total, there = 0, [pid]
    while there:
        one = there.pop()
        try:
            # Of what processes share, each counts its part: one that was forked shares all that its parent had.
            for line in Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines():
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1])
            for task in Path(f"/proc/{one}/task").iterdir():
                there += map(int, (task / "children").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            continue  # it has ended
    return total / 1024


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and all that it started in it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_within(
    command: Sequence[str], environment: Mapping[str, str], limit: Limit, errors: int, check: Callable[[], None]
) -> int:
    """Run a command that reads and says nothing, but on the file `errors`; return its exit status. `check` may raise.

    Raises Exceeded where it takes more than its limit. Nothing that it started is left.
    """
    process = subprocess.Popen(  # noqa: S603  # the caller's
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=environment,
        start_new_session=True,
    )
    end = time.monotonic() + limit.seconds
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK)
            if time.monotonic() > end:
                raise Exceeded(f"it took longer than {limit.seconds:g} seconds")
            if megabytes(process.pid) > limit.megabytes:
                raise Exceeded(f"it took more than {limit.megabytes:g} MB of memory")
            check()
    finally:
        end_group(process)
        process.wait()
