"""Comments on pull requests, round after round: plans of the open ones, rollouts of the merged ones.

What the forge doesn't take now waits, here and nowhere else: publishing and reporting go on.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from allotment.adapters.forge.forge import ForgeError, PullRequest, RateLimited
from allotment.adapters.git.clone import Damage
from allotment.adapters.metrics import CommentMetrics
from allotment.pipeline.log import Log
from allotment.pipeline.loop import REASONS, Failure, Loop, Pace, repair
from allotment.pipeline.pulls.reviewing import Origin, Reviews, by_head
from allotment.pipeline.pulls.rollouts import Rollouts
from allotment.pipeline.pulls.troubles import Trouble, tried
from allotment.problems import AllotmentError, Refused

FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0  # seconds after an error, doubled each time
RETRIED_SECONDS = 3600.0  # after what the forge declined, or a bug of ours, if nothing changes before
COMMENT_REASONS = ("forge", "rate-limited", *REASONS)
STALLED_SECONDS = 3000  # as long as ten plans of one commit and the base may take


class PullWork(NamedTuple):
    """What one repository's pull requests need."""

    place: Origin
    reviews: Reviews
    rollouts: Rollouts


class Commenter(Loop):
    """Comments on the pull requests of one repository until it is stopped.

    `work` is asked for once the source can be read, since that says which forge it lies on.
    """

    def __init__(
        self,
        work: Callable[[], PullWork],
        metrics: CommentMetrics,
        log: Log,
        interval: float,
        *,
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        pace = Pace(interval, STALLED_SECONDS, FIRST_WAIT, LONGEST_WAIT)
        super().__init__(pace, log, "no comments", metrics.failed, leading)
        self._begin = work
        self._work: PullWork | None = None
        self._metrics = metrics
        metrics.begin(COMMENT_REASONS)
        self._reviewed: dict[int, tuple[str, str, str, tuple[int, ...]]] = {}
        self._retried: dict[int, float] = {}  # when those are reviewed again of which nothing could be said
        self._open: dict[str, int] = {}  # a pull request of each commit, as it was in the last round
        self._troubles: dict[int, str] = {}
        self._turn_troubles: list[str] = []  # with single pull requests, in this turn

    def ready(self) -> bool:
        """Return whether this replica does what it should: a forge that is away is no reason to be restarted."""
        return True

    @property
    def where(self) -> str:
        """Where the source is, as it may be shown."""
        return str(self._work.place.source) if self._work else ""

    def stand_by(self) -> None:
        """Forget nothing: what was said is read from the forge each time."""

    def repair(self, errors: Sequence[str]) -> Damage | None:
        """Check the clone, and begin again if it was replaced: what was said of each pull request is reviewed again."""
        all_errors, self._turn_troubles = [*errors, *self._turn_troubles], []
        if self._work is None:
            return None
        damage = repair(self._work.place.source.repository, all_errors)
        if damage is not None and damage.replaced:
            self._work = None
            self._reviewed.clear()
            self._retried.clear()
        return damage

    def failure(self, error: Exception) -> Failure:
        """Return why there are no comments now, and for how long where the forge says so."""
        if isinstance(error, RateLimited):
            return Failure("rate-limited", str(error), seconds=error.seconds)
        return Failure("forge", str(error)) if isinstance(error, ForgeError) else super().failure(error)

    def turn(self) -> Failure | None:
        """Say what is new, and take back what was withdrawn; follow what was merged; then review what is open and has
        changed, or whose base has.

        Return why what was merged can't be followed now.
        """
        self._work = self._work or self._begin()
        place = self._work.place
        requests = list(place.forge.open_pull_requests(place.branch))
        groups = by_head(sorted(requests, key=self._is_known))
        for alike in groups:
            if not all(map(self._is_known, alike)):
                self._announce(self._work.reviews, alike)
        self._withdraw(self._work.reviews, {request.head: request.number for request in requests})
        name = f"refs/heads/{place.branch}"
        base = place.source.fetch(name).get(name)
        if base is None:
            raise Refused(f"the source has no branch {place.branch}")
        trouble = self._follow(self._work.rollouts, len(requests))
        for alike in groups:
            if self.stopped.is_set():
                return None
            self.goes_on()
            self._review(self._work.reviews, alike, base)
        for number in self._reviewed.keys() - {request.number for request in requests}:
            del self._reviewed[number]
            self._retried.pop(number, None)
        place.source.repository.tidy()
        return None if trouble is None else Failure(trouble.reason, trouble.words)

    def _is_known(self, request: PullRequest) -> bool:
        """Return whether a pull request is as it was when it was last reviewed: news go before those whose base moved."""
        seen = self._reviewed.get(request.number)
        return seen is not None and (seen[0], seen[2]) == (request.head, request.updated)

    def _follow(self, rollouts: Rollouts, requests: int) -> Trouble | None:
        """Follow what was merged; return why that can't be seen now, which keeps no open pull request from its verdict."""
        outcome = tried(partial(rollouts.follow, datetime.datetime.now(datetime.UTC)))
        if isinstance(outcome, Trouble):
            return outcome
        self._metrics.seen(requests, outcome.going)
        for number, trouble in outcome.troubles.items():
            self._tell_of("no rollout", number, trouble)
        return None

    def _withdraw(self, reviews: Reviews, open_heads: dict[str, int]) -> None:
        """Take back what was said of commits that no open pull request is of any more: what can't be now, in the
        next round."""
        for head, number in self._open.items():
            if head not in open_heads:
                trouble = tried(partial(reviews.withdraw, number, head))
                if trouble is not None:
                    self._tell_of("not taken back", number, trouble)
                    open_heads |= {} if trouble.stays else {head: number}
        self._open = open_heads

    def _announce(self, reviews: Reviews, alike: list[PullRequest]) -> None:
        """Say on a commit that it waits. What goes wrong with that the review meets again, and tells."""
        tried(partial(reviews.announce, alike))

    def _review(self, reviews: Reviews, alike: list[PullRequest], base: str) -> None:
        """Review all of one commit, unless all are as they were when they were last reviewed: an approval shows in
        when it was updated."""
        numbers = tuple(sorted(pull_request.number for pull_request in alike))
        seen = {pull_request.number: (pull_request.head, base, pull_request.updated, numbers) for pull_request in alike}
        is_due = any(time.monotonic() >= self._retried.get(number, math.inf) for number in numbers)
        if not is_due and all(self._reviewed.get(number) == review_state for number, review_state in seen.items()):
            return
        request = alike[0]
        verdict = tried(partial(reviews.review, request.number, request.head, alike), (AllotmentError,))
        for number in numbers:
            self._retried.pop(number, None)
        if isinstance(verdict, Trouble):
            self._tell_of("no verdict", request.number, verdict)
            if verdict.stays:
                self._retried[request.number] = time.monotonic() + RETRIED_SECONDS
                self._reviewed |= seen
        elif verdict.state:
            self._metrics.reviewed(verdict.state)
            self.log.info("reviewed", number=request.number, head=request.head, base=base, verdict=verdict.words)
            self._reviewed |= seen

    def _tell_of(self, event: str, number: int, trouble: Trouble) -> None:
        self._metrics.failed(trouble.reason)
        self._turn_troubles.append(trouble.words)
        if self._troubles.get(number) != trouble.words:
            self._troubles[number] = trouble.words
            self.log.error(event, number=number, reason=trouble.reason, message=trouble.words)
