"""Calls a function in a forked process, while this process continues."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec


def can_fork() -> bool:
    """Return whether a forked process can run at the same time as this process, without harm to threads."""
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return False
    try:
        return len(os.sched_getaffinity(0)) > 1
    except AttributeError:
        return (os.cpu_count() or 1) > 1


class ForkedCall:
    """A call of a function in a forked process. The result of the function must be JSON.

    If the process fails, the result is None and no error is raised. The caller can then compute the result itself.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._result: Any = None
        self._reader, writer = os.pipe()
        self._pid = 0
        try:
            self._pid = os.fork()
            if self._pid == 0:
                _call_and_exit(function, self._reader, writer)
        except OSError:  # the system allows no more processes
            pass
        finally:
            os.close(writer)

    def result(self) -> Any:
        """Wait for the process, and return the result."""
        if self._pid:
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                self._result = msgspec.json.decode(_read_all(self._reader))
            self.close()
        return self._result

    def close(self) -> None:
        """End the process if it still runs."""
        if self._pid:
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            self._pid = 0
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1


def _call_and_exit(function: Callable[[], Any], reader: int, writer: int) -> NoReturn:
    """Write the result of the function to a pipe, and end this process before it runs other code of the parent."""
    try:
        os.close(reader)  # so that a write fails after the parent ends
        data = msgspec.json.encode(function())
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _read_all(reader: int) -> bytes:
    chunks = []
    while chunk := os.read(reader, 1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)
