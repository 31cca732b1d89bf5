"""Runs processes within limits of time and memory, and ends them with all their descendants."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from allotment.problems import OperationRefused

POLL_SECONDS = 0.05  # seconds between two checks of the memory
NOTICE_SECONDS = 5.0  # seconds of silence before a notice
_SILENCE_POLL_SECONDS = 0.2  # seconds between two checks of a silent process
_CHUNK_BYTES = 1 << 16  # bytes per read
MAX_OUTPUT_BYTES = 256 << 20  # a million refs of a remote are some 60 MB


class Limit(NamedTuple):
    """The limits of a process and its descendants: its run time in seconds, and their total memory in megabytes."""

    seconds: float
    megabytes: float


class Patience(NamedTuple):
    """The longest waits for a process, in seconds: for its next output (`silent_seconds`) and for its end
    (`total_seconds`)."""

    silent_seconds: float
    total_seconds: float


class ProcessLimitExceeded(Exception):
    """A process exceeded a limit. The message says which limit."""


class ProgramShutdown(OperationRefused):
    """This program ends, so a process that had more time was killed."""


class _Shutdown:
    """The time at which all processes of this module end, on the monotonic clock, because this program ends."""

    end = math.inf


def end_processes_after(seconds: float) -> None:
    """Let `communicate_within` and `run_within` kill their processes after some seconds, in all threads.

    A signal handler may call it, also repeatedly. `math.inf` takes it back.
    """
    end = time.monotonic() + seconds
    _Shutdown.end = end if math.isinf(end) else min(end, _Shutdown.end)


def _check_shutdown() -> None:
    if time.monotonic() >= _Shutdown.end:
        raise ProgramShutdown("this program ends")


def memory_megabytes(pid: int) -> float:
    """Return the private memory of a process and its descendants in megabytes; 0 if the system doesn't report it."""
    total, pids = 0, [pid]
    while pids:
        process_id = pids.pop()
        try:
            # A forked process shares the memory of its parent. Pss divides each shared page among the processes that
            # share it, so the sum counts the page once.
            for line in (
                Path(f"/proc/{process_id}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
            ):
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1])
            for task in Path(f"/proc/{process_id}/task").iterdir():
                pids += map(int, (task / "children").read_text(encoding="ascii").split())
        except (OSError, ValueError):
            continue  # the files of a process disappear when it ends
    return total / 1024


def terminate_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and all processes of its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_within(
    command: Sequence[str], environment: Mapping[str, str], limit: Limit, errors: int, check: Callable[[], None]
) -> int:
    """Run a command without input and output, and return its exit status.

    The command writes its errors to the file descriptor `errors`. `check` is called every POLL_SECONDS; an exception
    that `check` raises ends the command. Raises ProgramShutdown, and ProcessLimitExceeded if the command exceeds its limit. Leaves no
    process behind.
    """
    process = subprocess.Popen(  # noqa: S603  # the caller chooses the command
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
            _check_shutdown()
            if time.monotonic() > end:
                raise ProcessLimitExceeded(f"it took longer than {limit.seconds:g} seconds")
            if memory_megabytes(process.pid) > limit.megabytes:
                raise ProcessLimitExceeded(f"it took more than {limit.megabytes:g} MB of memory")
            check()
    finally:
        terminate_group(process)
        process.wait()


def communicate_within(
    process: subprocess.Popen[bytes], patience: Patience, on_silence: Callable[[], None] = lambda: None
) -> tuple[bytes, bytes]:
    """Wait until a process that leads a session has ended, and return its output and its errors.

    Calls `on_silence` once, if the process writes nothing for NOTICE_SECONDS.
    Raises ProgramShutdown, and ProcessLimitExceeded if the process is silent for too long, doesn't end in time or writes more than MAX_OUTPUT_BYTES.
    Leaves no process behind.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    written: dict[int, list[bytes]] = {process.stdout.fileno(): [], process.stderr.fileno(): []}
    last_output, size, is_told = time.monotonic(), 0, False
    end = last_output + patience.total_seconds
    try:
        with selectors.DefaultSelector() as selector:
            for number in written:
                selector.register(number, selectors.EVENT_READ)
            while selector.get_map():
                events = selector.select(_SILENCE_POLL_SECONDS)
                now = time.monotonic()
                _check_shutdown()
                if now >= end:
                    raise ProcessLimitExceeded(f"it didn't end within {patience.total_seconds:g} seconds")
                if events:
                    last_output = now
                elif now - last_output >= patience.silent_seconds:
                    raise ProcessLimitExceeded(f"it made no progress for {patience.silent_seconds:g} seconds")
                elif not is_told and now - last_output >= NOTICE_SECONDS:
                    is_told = True
                    on_silence()
                if size > MAX_OUTPUT_BYTES:
                    raise ProcessLimitExceeded(f"it wrote more than {MAX_OUTPUT_BYTES >> 20} MiB")
                for key, _ in events:
                    if data := os.read(key.fd, _CHUNK_BYTES):
                        written[key.fd].append(data)
                        size += len(data)
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
