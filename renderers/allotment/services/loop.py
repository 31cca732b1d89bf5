"""Turn after turn of what runs for weeks: when the next one begins, what is done about one that fails, how it ends."""

from __future__ import annotations

import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from allotment.adapters.backoff import NO_BACKOFF, Backoff
from allotment.adapters.git.clone import Clone, CloneDamage
from allotment.adapters.git.repository import Repository
from allotment.problems import AllotmentError
from allotment.services.log import Log

REPEAT_LOG_SECONDS = 600.0  # an error that stays is told again so often
FAILURE_REASONS = ("refused", "damaged", "bug")  # of a failure, where a loop knows no others
STALLED_INTERVALS = 20  # a turn that takes as long as so many pauses has stalled, if it isn't allowed longer


class LoopTiming(NamedTuple):
    """Seconds: the longest time between two turns (`interval`), the shortest time until a turn counts as stalled, and the time
    from a wake-up to the turn (`wake_delay`). `backoff` says how long to wait after an error."""

    interval: float
    stall_timeout: float
    backoff: Backoff = NO_BACKOFF
    wake_delay: float = 0.0


class Failure(NamedTuple):
    """Why a turn failed: the reason that is counted, the words for the log; whether all it needs was `connected`, so
    that it is nothing that a restart could mend; and after how many `retry_after` to try again, where that is known."""

    reason: str
    message: str
    connected: bool = False
    retry_after: float | None = None


class Loop(ABC):
    """Takes turns until it is stopped. Its methods may be called by others than the thread that runs it.

    `event` is what the log says when a turn fails, `count` is told the reason. `leading` says whether this replica
    is the one that works. Whatever sets `woken` begins the next turn.
    """

    def __init__(
        self,
        pace: LoopTiming,
        log: Log,
        event: str,
        count: Callable[[str], None],
        leading: Callable[[], bool] = lambda: True,
        woken: threading.Event | None = None,
    ) -> None:
        self.timing = pace
        self.log = log
        self.is_leader = leading
        self.stop_event = threading.Event()
        self._failure_event, self._count_failure = event, count
        self._wake_event = woken or threading.Event()
        self._last_heartbeat = time.monotonic()
        self._is_ready = False
        self._failure_count = 0
        self._retry_at = 0.0
        self._last_logged = ("", 0.0)

    @property
    @abstractmethod
    def display_url(self) -> str:
        """What it works on, as it may be shown."""

    @abstractmethod
    def run_once(self) -> Failure | None:
        """Do what is to be done; return why not all of that could be, or raise it."""

    @abstractmethod
    def on_leadership_lost(self) -> None:
        """Forget what another replica, which leads now, may change meanwhile."""

    def classify_error(self, error: Exception) -> Failure:
        """Return why a turn failed."""
        if isinstance(error, AllotmentError):
            return Failure("refused", str(error))
        return Failure("bug", "".join(traceback.format_exception(error)))

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone for damage after errors, with those that the turn itself got over; return the damage. If the
        clone was replaced, forget its objects. A loop without a clone has no damage."""
        return None

    def _check_clone(self, failure: Failure | None) -> Failure | None:
        """Return why the turn failed: the damage of the clone, where that is the reason. If the clone was replaced,
        the next turn begins at once."""
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
                "damaged", f"the local clone was damaged, and is fetched again: {damage.fsck_output}", retry_after=0
            )
        retry_delay = f"in {damage.retry_seconds:.0f} seconds at the earliest"
        return Failure("damaged", f"the local clone is damaged, and is replaced {retry_delay}: {damage.fsck_output}")

    def is_due(self) -> bool:
        """Return whether a turn is taken now: after an error there is none for a while."""
        return not self.is_backing_off()

    def run(self) -> None:
        """Go on until `stop` is called; a turn that has begun is finished."""
        while not self.stop_event.is_set():
            self._wake_event.clear()
            self.heartbeat()
            if not self.is_leader() or self.is_due():
                self.tick()
            if self._wake_event.wait(min(self.timing.interval, 1.0) if self._is_retrying() else self.timing.interval):
                self.stop_event.wait(self.timing.wake_delay)

    def tick(self) -> None:
        """Take one turn if this replica leads; whatever goes wrong is told and counted, and tried again later."""
        if not self.is_leader():
            self._is_ready = True
            self.on_leadership_lost()
            return
        try:
            failure = self.run_once()
        except Exception as error:  # a bug of ours in one turn is no reason to end
            failure = self.classify_error(error)
        failure = self._check_clone(failure)
        if failure is not None:
            self._record_failure(failure)
        elif not self.is_backing_off():
            self._is_ready, self._failure_count, self._last_logged = True, 0, ("", 0.0)

    def heartbeat(self) -> None:
        """Note that it hasn't stalled."""
        self._last_heartbeat = time.monotonic()

    def is_backing_off(self) -> bool:
        """Return whether it waits after an error."""
        return time.monotonic() < self._retry_at

    def _is_retrying(self) -> bool:
        """Return whether the last turn failed, and is tried again sooner than after a whole interval."""
        return self._failure_count > 0 and self.timing.backoff.first > 0

    def log_once(self, words: str, **about: str) -> None:
        """Log what keeps it from its work, once while that stays the same, and now and then."""
        now = time.monotonic()
        if words and (words != self._last_logged[0] or now - self._last_logged[1] > REPEAT_LOG_SECONDS):
            self._last_logged = words, now
            self.log.error(self._failure_event, **about, message=words)

    def _record_failure(self, failure: Failure) -> None:
        self._is_ready = failure.connected
        self._count_failure(failure.reason)
        self.log_once(failure.message, reason=failure.reason)
        self._failure_count += 1
        wait = self.timing.backoff.delay(self._failure_count)
        self._retry_at = time.monotonic() + (wait if failure.retry_after is None else failure.retry_after)

    def wake(self) -> None:
        """Begin the next turn now, or when the rest after an error is over."""
        self._wake_event.set()

    def stop(self) -> None:
        """End after the turn that runs."""
        self.stop_event.set()
        self._wake_event.set()

    def alive(self) -> bool:
        """Return whether turns go on."""
        return time.monotonic() - self._last_heartbeat < max(
            self.timing.stall_timeout, STALLED_INTERVALS * self.timing.interval
        )

    def ready(self) -> bool:
        """Return whether the last turn reached all it needs."""
        return self._is_ready


def repair_if_clone(repository: Repository, errors: Sequence[str]) -> CloneDamage | None:
    """Return the damage of a clone, None where it has none, or where the repository is not a clone of the program."""
    return repository.repair(errors) if isinstance(repository, Clone) else None
