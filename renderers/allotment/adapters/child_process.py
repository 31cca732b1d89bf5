"""Runs a part of `allot run` in a child process.

If the child process ends, it is restarted. If the parent process ends, the child process stops too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from allotment.adapters.backoff import Backoff

if TYPE_CHECKING:
    from allotment.adapters.log import Log

BACKOFF = Backoff(1.0, 300.0)  # the seconds before each restart of the child process
STABLE_SECONDS = 600.0  # after a longer run of the child process, the wait is as short as before its first restart
POLL_SECONDS = 0.5
GRACE_SECONDS = 15.0
PASSED_VARIABLES = ("ALLOT_FORGE_TOKEN", "ALLOT_FORGE_TOKEN_FILE")


@contextmanager
def wake_on_input(wake: Callable[[], None], *stops: Callable[[], None]) -> Iterator[None]:
    """Start a thread that calls `wake` for each line of standard input, and all `stops` when standard input ends.

    Standard input ends when the parent process ends.
    """

    def listen() -> None:
        for _ in sys.stdin.buffer:
            wake()
        for stop in stops:
            stop()

    threading.Thread(target=listen, daemon=True).start()
    yield


class ChildProcess:
    """Runs `allot` with the arguments `words` in a child process, as long as this replica of `allot run` is the leader.

    `variables` are environment variables with options, because other users of the machine can see arguments, and a URL can hold a
    password. If the child process ends, it is restarted after a wait.
    """

    display_url = ""

    def __init__(
        self, words: list[str], log: Log, *, is_leader: Callable[[], bool], variables: Mapping[str, str]
    ) -> None:
        self._arguments = words
        self._variables = variables
        self._log = log
        self._is_leader = is_leader
        self._stop_event, self._wake_event = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Run the child process, and restart it when it ends, until `stop` is called."""
        failures = 0
        while not self._stop_event.is_set():
            if self._is_leader():
                begun = time.monotonic()
                status = self._run_process()
                if self._stop_event.is_set() or not self._is_leader():
                    continue
                failures = 1 if time.monotonic() - begun > STABLE_SECONDS else failures + 1
                wait = round(BACKOFF.delay(failures), 1)
                self._log.error("a process ended", words=self._arguments[:2], status=status, again=wait)
                self._wake_event.clear()
                self._wake_event.wait(wait)
            else:
                self._stop_event.wait(POLL_SECONDS)

    def _run_process(self) -> int:
        # Any other variable ALLOT_… would set an option of the child process that is left out on purpose.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ALLOT_") or name in PASSED_VARIABLES
        } | dict(self._variables)
        self._process = subprocess.Popen(  # noqa: S603  # no shell interprets the arguments
            [sys.executable, "-P", "-m", "allotment", *self._arguments],
            stdin=subprocess.PIPE,
            env=environment,
        )
        try:
            while not self._stop_event.wait(POLL_SECONDS):
                if (status := self._process.poll()) is not None:
                    return status
                if not self._is_leader():
                    break
        finally:
            self._end_process()
        return self._process.wait()

    def _end_process(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wake(self) -> None:
        """Make the child process check for work at once. If it has ended, restart it without further wait."""
        self._wake_event.set()
        # If no child process is running, `_process` is None or its standard input is closed, and the write fails.
        with contextlib.suppress(OSError, AttributeError, ValueError):
            self._process.stdin.write(b"\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    def stop(self) -> None:
        """Stop the child process, and do not restart it."""
        self._stop_event.set()
        self._wake_event.set()

    def alive(self) -> bool:
        """Return True, because a failure of the child process is no reason to restart the parent process."""
        return True

    ready = alive
