"""Turn after turn of what runs for weeks: when the next one begins, what is done about one that fails, how it ends."""

from __future__ import annotations

import random
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from allotment.adapters.git.clone import Clone, Damage
from allotment.adapters.git.repository import Repository
from allotment.pipeline.log import Log
from allotment.problems import AllotmentError

TOLD_SECONDS = 600.0  # an error that stays is told again so often
REASONS = ("refused", "damaged", "bug")  # of a failure, where a loop knows no others
STALLED_TURNS = 20  # a turn that takes as long as so many pauses has stalled, if it isn't allowed longer


class Pace(NamedTuple):
    """Seconds: between two turns, at most (`interval`); until a turn has stalled, at least; after an error, `first`
    and then twice as long each time up to `longest`, none at all where `first` is 0; from being woken to the turn
    (`gather`)."""

    interval: float
    stalled: float
    first: float = 0.0
    longest: float = 0.0
    gather: float = 0.0


class Failure(NamedTuple):
    """Why a turn failed: the reason that is counted, the words for the log; whether all it needs was `reached`, so
    that it is nothing that a restart could mend; and after how many `seconds` to try again, where that is known."""

    reason: str
    words: str
    reached: bool = False
    seconds: float | None = None


class Loop(ABC):
    """Takes turns until it is stopped. Its methods may be called by others than the thread that runs it.

    `event` is what the log says when a turn fails, `count` is told the reason. `leading` says whether this replica
    is the one that works. Whatever sets `woken` begins the next turn.
    """

    def __init__(
        self,
        pace: Pace,
        log: Log,
        event: str,
        count: Callable[[str], None],
        leading: Callable[[], bool] = lambda: True,
        woken: threading.Event | None = None,
    ) -> None:
        self.pace = pace
        self.log = log
        self.leading = leading
        self.stopped = threading.Event()
        self._event, self._count = event, count
        self._woken = woken or threading.Event()
        self._begun = time.monotonic()
        self._good = False
        self._failures = 0
        self._again = 0.0
        self._told = ("", 0.0)

    @property
    @abstractmethod
    def where(self) -> str:
        """What it works on, as it may be shown."""

    @abstractmethod
    def turn(self) -> Failure | None:
        """Do what is to be done; return why not all of that could be, or raise it."""

    @abstractmethod
    def stand_by(self) -> None:
        """Forget what another replica, which leads now, may change meanwhile."""

    def failure(self, error: Exception) -> Failure:
        """Return why a turn failed."""
        if isinstance(error, AllotmentError):
            return Failure("refused", str(error))
        return Failure("bug", "".join(traceback.format_exception(error)))

    def repair(self, errors: Sequence[str]) -> Damage | None:
        """Check the clone for damage after errors, with those that the turn itself got over; return the damage. If the
        clone was replaced, forget its objects. A loop without a clone has no damage."""
        return None

    def _repair(self, failure: Failure | None) -> Failure | None:
        """Return why the turn failed: the damage of the clone, where that is the reason. If the clone was replaced,
        the next turn begins at once."""
        try:
            damage = self.repair([] if failure is None else [failure.words])
        except OSError as error:
            return Failure("damaged", f"the local clone can't be repaired: {error}")
        if damage is None:
            return failure
        if damage.replaced:
            self.log.warning("clone replaced", message=damage.words)
            self._woken.set()
            return Failure("damaged", f"the local clone was damaged, and is fetched again: {damage.words}", seconds=0)
        retry_delay = f"in {damage.seconds:.0f} seconds at the earliest"
        return Failure("damaged", f"the local clone is damaged, and is replaced {retry_delay}: {damage.words}")

    def is_due(self) -> bool:
        """Return whether a turn is taken now: after an error there is none for a while."""
        return not self.rests()

    def run(self) -> None:
        """Go on until `stop` is called; a turn that has begun is finished."""
        while not self.stopped.is_set():
            self._woken.clear()
            self.goes_on()
            if not self.leading() or self.is_due():
                self.once()
            if self._woken.wait(min(self.pace.interval, 1.0) if self._is_retried() else self.pace.interval):
                self.stopped.wait(self.pace.gather)

    def once(self) -> None:
        """Take one turn if this replica leads; whatever goes wrong is told and counted, and tried again later."""
        if not self.leading():
            self._good = True
            self.stand_by()
            return
        try:
            failure = self.turn()
        except Exception as error:  # a bug of ours in one turn is no reason to end
            failure = self.failure(error)
        failure = self._repair(failure)
        if failure is not None:
            self._fail(failure)
        elif not self.rests():
            self._good, self._failures, self._told = True, 0, ("", 0.0)

    def goes_on(self) -> None:
        """Note that it hasn't stalled."""
        self._begun = time.monotonic()

    def rests(self) -> bool:
        """Return whether it waits after an error."""
        return time.monotonic() < self._again

    def _is_retried(self) -> bool:
        """Return whether the last turn failed, and is tried again sooner than after a whole interval."""
        return self._failures > 0 and self.pace.first > 0

    def tell(self, words: str, **about: str) -> None:
        """Log what keeps it from its work, once while that stays the same, and now and then."""
        now = time.monotonic()
        if words and (words != self._told[0] or now - self._told[1] > TOLD_SECONDS):
            self._told = words, now
            self.log.error(self._event, **about, message=words)

    def _fail(self, failure: Failure) -> None:
        self._good = failure.reached
        self._count(failure.reason)
        self.tell(failure.words, reason=failure.reason)
        wait = min(self.pace.longest, self.pace.first * 2**self._failures) * random.uniform(0.75, 1.25)  # noqa: S311  # no secret
        self._failures = min(self._failures + 1, 16)
        self._again = time.monotonic() + (wait if failure.seconds is None else failure.seconds)

    def wake(self) -> None:
        """Begin the next turn now, or when the rest after an error is over."""
        self._woken.set()

    def stop(self) -> None:
        """End after the turn that runs."""
        self.stopped.set()
        self._woken.set()

    def alive(self) -> bool:
        """Return whether turns go on."""
        return time.monotonic() - self._begun < max(self.pace.stalled, STALLED_TURNS * self.pace.interval)

    def ready(self) -> bool:
        """Return whether the last turn reached all it needs."""
        return self._good


def repair(repository: Repository, errors: Sequence[str]) -> Damage | None:
    """Return the damage of a clone, None where it has none, or where the repository is not a clone of the program."""
    return repository.repair(errors) if isinstance(repository, Clone) else None
