"""A part of `allot run` as a process of its own: begun again when it ends, ended with this one."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allotment.pipeline.log import Log

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0  # seconds until it is begun again, doubled each time
STEADY = 600.0  # seconds after which a process that ends is begun again as if it were the first time
LOOK = 0.5
GRACE = 15.0
GIVEN = ("ALLOT_FORGE_TOKEN", "ALLOT_FORGE_TOKEN_FILE")


@contextmanager
def told(wake: Callable[[], None], *stops: Callable[[], None]) -> Iterator[None]:
    """Wake, for a while, at every line of standard input, and stop at its end: who began this process is no more."""

    def listen() -> None:
        for _ in sys.stdin.buffer:
            wake()
        for stop in stops:
            stop()

    threading.Thread(target=listen, daemon=True).start()
    yield


class Child:
    """Runs `allot` with some words as another process, while this replica leads. `wake` ends a pause before it
    begins again."""

    where = ""

    def __init__(self, words: list[str], log: Log, *, leading: Callable[[], bool]) -> None:
        self._words = words
        self._log = log
        self._leading = leading
        self._stopped, self._wake = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Go on until `stop` is called."""
        wait = FIRST_WAIT
        while not self._stopped.is_set():
            if self._leading():
                begun = time.monotonic()
                status = self._once()
                if self._stopped.is_set() or not self._leading():
                    continue
                wait = FIRST_WAIT if time.monotonic() - begun > STEADY else min(2 * wait, LONGEST_WAIT)
                self._log.error("a process ended", words=self._words[:2], status=status, again=wait)
                self._wake.clear()
                self._wake.wait(wait)
            else:
                self._stopped.wait(LOOK)

    def _once(self) -> int:
        # What is an option of this process, given as a variable, is none of that one's: its words say all of it.
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("ALLOT_") or name in GIVEN
        }
        self._process = subprocess.Popen(  # noqa: S603  # our own words
            [sys.executable, "-P", "-m", "allotment", *self._words],
            stdin=subprocess.PIPE,
            env=environment,
        )
        try:
            while not self._stopped.wait(LOOK):
                if (status := self._process.poll()) is not None:
                    return status
                if not self._leading():
                    break
        finally:
            self._end()
        return self._process.wait()

    def _end(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wake(self) -> None:
        """Have it look now."""
        self._wake.set()
        with contextlib.suppress(OSError, AttributeError, ValueError):  # it has ended, or hasn't begun
            self._process.stdin.write(b"\n")  # type: ignore[union-attr]  # suppressed
            self._process.stdin.flush()  # type: ignore[union-attr]

    def stop(self) -> None:
        """End it."""
        self._stopped.set()
        self._wake.set()

    def alive(self) -> bool:
        """Return whether this process does what it should: what becomes of the other is no reason to be restarted."""
        return True

    ready = alive
