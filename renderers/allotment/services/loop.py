"""Runs a task repeatedly for weeks.

One run of the task is a turn. A `Loop` decides when the next turn begins, handles a failed turn, and ends on request.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from allotment.adapters.backoff import NO_BACKOFF, Backoff
from allotment.adapters.git.clone import Clone, CloneDamage
from allotment.adapters.git.commands import GitFailed
from allotment.adapters.git.remote import RemoteUnavailable
from allotment.adapters.git.repository import Repository
from allotment.adapters.log import Log
from allotment.adapters.processes import ProgramShutdown
from allotment.problems import AllotmentError

REPEAT_LOG_SECONDS = 600.0  # an error that persists is logged again after this time
# Every loop has these failure reasons; some loops add others.
FAILURE_REASONS = ("unreachable", "refused", "disk-full", "damaged", "bug")
_FULL_DISK_TEXTS = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))  # Git prints the same texts
STALLED_INTERVALS = 20  # a turn that is longer than this many intervals is stalled, unless `stall_timeout` is longer


class LoopTiming(NamedTuple):
    """The timing of a loop, in seconds.

    - `interval` is the longest wait between two turns.
    - `stall_timeout` is the time after which a turn is stalled. STALLED_INTERVALS intervals apply instead if they are
      longer.
    - `backoff` sets the wait after an error.
    - `wake_delay` is the wait between a wake-up and the turn that follows.
    """

    interval: float
    stall_timeout: float
    backoff: Backoff = NO_BACKOFF
    wake_delay: float = 0.0


class Failure(NamedTuple):
    """The failure of a turn.

    The loop counts `reason` in a metric and logs `message`. `connected` is true if the loop reached everything that it
    needs, so a restart would not help. `retry_after` is the number of seconds until the next try; None if the loop's
    `backoff` sets it.
    """

    reason: str
    message: str
    connected: bool = False
    retry_after: float | None = None


class Loop(ABC):
    """Runs turns until it is stopped. Other threads may call `wake`, `stop`, `alive` and `ready`.

    `event` is the log event of a failed turn, and `count` receives the failure's reason. `is_leader` returns whether
    this replica is the leader. If another thread sets `wake_event`, the next turn begins.
    """

    def __init__(
        self,
        timing: LoopTiming,
        log: Log,
        event: str,
        count: Callable[[str], None],
        is_leader: Callable[[], bool] = lambda: True,
        wake_event: threading.Event | None = None,
    ) -> None:
        self.timing = timing
        self.log = log
        self.is_leader = is_leader
        self.stop_event = threading.Event()
        self._failure_event, self._count_failure = event, count
        self._wake_event = wake_event or threading.Event()
        self._last_heartbeat = time.monotonic()
        self._is_ready = False
        self._failure_count = 0
        self._retry_at = 0.0
        self._last_logged = ("", 0.0)

    @property
    @abstractmethod
    def display_url(self) -> str:
        """The URL that the loop works on, without secrets."""

    @abstractmethod
    def run_once(self) -> Failure | None:
        """Do the work of one turn.

        If a part of the work fails, return the failure. If all of it fails, raise an exception.
        """

    @abstractmethod
    def on_leadership_lost(self) -> None:
        """Forget the state that the new leader, another replica, may change."""

    def classify_error(self, error: Exception) -> Failure:
        """Return the failure for an exception that a turn raised."""
        if isinstance(error, AllotmentError | GitFailed | OSError) and any(
            text in str(error) for text in _FULL_DISK_TEXTS
        ):
            return Failure("disk-full", f"a disk is full, that of this process or of the server: {error}")
        if isinstance(error, RemoteUnavailable):
            return Failure("unreachable", str(error))
        if isinstance(error, AllotmentError):
            return Failure("refused", str(error))
        return Failure("bug", "".join(traceback.format_exception(error)))

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone for damage after errors, and return the damage; None if there is none.

        `errors` are the messages of the errors of the turn. A subclass adds the errors from which the turn recovered.
        If the clone was replaced, the subclass also forgets everything that it has read from the clone. The method of
        this base class returns None, for loops that have no clone.
        """
        return None

    def _check_clone(self, failure: Failure | None) -> Failure | None:
        """Return the failure of the turn. If the clone is damaged, return the damage as the failure instead.

        If the clone was replaced, the next turn begins at once.
        """
        try:
            damage = self.repair_clone([] if failure is None else [failure.message])
        except OSError as error:
            return Failure("damaged", f"the local clone can't be repaired: {error}")
        if damage is None:
            return failure
        if damage.is_replaced:
            self.log.warning("clone replaced", message=damage.fsck_output)
            self._wake_event.set()
            return Failure(
                "damaged", f"the local clone was damaged, and is cloned again: {damage.fsck_output}", retry_after=0
            )
        retry_delay = f"in {damage.retry_seconds:.0f} seconds at the earliest"
        return Failure("damaged", f"the local clone is damaged, and is replaced {retry_delay}: {damage.fsck_output}")

    def is_due(self) -> bool:
        """Return whether to run a turn now. After an error, the loop waits."""
        return not self.is_backing_off()

    def run(self) -> None:
        """Run turns until `stop` is called. A turn that has begun is finished, or ends with Git after a shutdown."""
        while not self.stop_event.is_set():
            self._wake_event.clear()
            self.heartbeat()
            if not self.is_leader() or self.is_due():
                self.tick()
            if self._wake_event.wait(min(self.timing.interval, 1.0) if self._is_retrying() else self.timing.interval):
                self.stop_event.wait(self.timing.wake_delay)

    def tick(self) -> None:
        """Run one turn if this replica is the leader; otherwise call `on_leadership_lost`.

        If the turn fails, log and count the failure; a later turn tries again.
        """
        if not self.is_leader():
            self._is_ready = True
            self.on_leadership_lost()
            return
        try:
            failure = self.run_once()
        except ProgramShutdown:
            return
        except Exception as error:  # a bug in one turn must not end the loop
            failure = self.classify_error(error)
        failure = self._check_clone(failure)
        if failure is not None:
            self._record_failure(failure)
        elif not self.is_backing_off():
            self._is_ready, self._failure_count, self._last_logged = True, 0, ("", 0.0)

    def heartbeat(self) -> None:
        """Record that the loop has not stalled."""
        self._last_heartbeat = time.monotonic()

    def is_backing_off(self) -> bool:
        """Return whether the loop waits after an error."""
        return time.monotonic() < self._retry_at

    def _is_retrying(self) -> bool:
        """Return whether the last turn failed and the loop has a `backoff`, which sets the time of the next try."""
        return self._failure_count > 0 and self.timing.backoff.first > 0

    def log_once(self, message: str, **about: str) -> None:
        """Log the reason why the loop cannot work. Log the same reason again only after REPEAT_LOG_SECONDS."""
        now = time.monotonic()
        if message and (message != self._last_logged[0] or now - self._last_logged[1] > REPEAT_LOG_SECONDS):
            self._last_logged = message, now
            self.log.error(self._failure_event, **about, message=message)

    def _record_failure(self, failure: Failure) -> None:
        self._is_ready = failure.connected
        self._count_failure(failure.reason)
        self.log_once(failure.message, reason=failure.reason)
        self._failure_count += 1
        wait = self.timing.backoff.delay(self._failure_count)
        self._retry_at = time.monotonic() + (wait if failure.retry_after is None else failure.retry_after)

    def wake(self) -> None:
        """Begin the next turn now, or as soon as the wait after an error ends."""
        self._wake_event.set()

    def stop(self) -> None:
        """End the loop after the current turn."""
        self.stop_event.set()
        self._wake_event.set()

    def alive(self) -> bool:
        """Return whether the loop still runs turns, and no turn is stalled."""
        return time.monotonic() - self._last_heartbeat < max(
            self.timing.stall_timeout, STALLED_INTERVALS * self.timing.interval
        )

    def ready(self) -> bool:
        """Return whether the last turn reached everything that it needs.

        A replica that is not the leader needs nothing, so it is ready after its first `tick`.
        """
        return self._is_ready


def repair_if_clone(repository: Repository, errors: Sequence[str]) -> CloneDamage | None:
    """Check a repository for damage after errors, and return the damage; None if there is none.

    Checks only a `Clone`: a repository that the program itself has cloned.
    """
    return repository.repair(errors) if isinstance(repository, Clone) else None
