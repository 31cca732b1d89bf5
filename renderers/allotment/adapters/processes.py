"""Processes with a budget: what one and those that it started take, and their end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

POLL_SECONDS = 0.05  # seconds between two looks at the memory
_CHUNK_BYTES = 1 << 16  # bytes that are read at once


class Limit(NamedTuple):
    """What a process may take: seconds, and megabytes of memory of all that it starts together."""

    seconds: float
    megabytes: float


class Patience(NamedTuple):
    """How many seconds to wait for a process: between two outputs of it (`silent_seconds`), and until it ends (`total_seconds`)."""

    silent_seconds: float
    total_seconds: float


class ProcessLimitExceeded(Exception):
    """A process took more than its limit; the words say what."""


def memory_megabytes(pid: int) -> float:
    """Return the memory that a process and those that it started hold for themselves; 0 where the system doesn't say."""
    total, pids = 0, [pid]
    while pids:
        process_id = pids.pop()
        try:
            # Of what processes share, each counts its part: one that was forked shares all that its parent had.
            for line in (
                Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
            ):
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1])
            for task in Path(f"/proc/{process_id}/task").iterdir():
                pids += map(int, (task / "children").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            continue  # it has ended
    return total / 1024


def terminate_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and all that it started in it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_within(
    command: Sequence[str], environment: Mapping[str, str], limit: Limit, errors: int, check: Callable[[], None]
) -> int:
    """Run a command that reads and says nothing, but on the file `errors`; return its exit status. `check` may raise.

    Raises ProcessLimitExceeded where it takes more than its limit. Nothing that it started is left.
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
                return process.wait(POLL_SECONDS)
            if time.monotonic() > end:
                raise ProcessLimitExceeded(f"it took longer than {limit.seconds:g} seconds")
            if memory_megabytes(process.pid) > limit.megabytes:
                raise ProcessLimitExceeded(f"it took more than {limit.megabytes:g} MB of memory")
            check()
    finally:
        terminate_group(process)
        process.wait()


def communicate_within(process: subprocess.Popen[bytes], patience: Patience) -> tuple[bytes, bytes]:
    """Return the output and the errors of a process that leads a session, once it has ended.

    Raises ProcessLimitExceeded where it is silent for too long or doesn't end in time. Nothing that it started is left.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    written: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    end = time.monotonic() + patience.total_seconds
    try:
        with selectors.DefaultSelector() as selector:
            for number in written:
                selector.register(number, selectors.EVENT_READ)
            while selector.get_map():
                events = selector.select(max(0.0, min(patience.silent_seconds, end - time.monotonic())))
                if time.monotonic() >= end:
                    raise ProcessLimitExceeded(f"it didn't end within {patience.total_seconds:g} seconds")
                if not events:
                    raise ProcessLimitExceeded(f"it made no progress for {patience.silent_seconds:g} seconds")
                for key, _ in events:
                    if data := os.read(key.fd, _CHUNK_BYTES):
                        written[key.fd].append(data)
                    else:
                        selector.unregister(key.fd)
        process.wait()
    finally:
        terminate_group(process)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    out, errors = (b"".join(parts) for parts in written.values())
    return out, errors
