"""Comments on pull requests: posts the plan on each open pull request, and the rollout on each merged pull request.

The loop does this in rounds. If the forge rejects a request or doesn't answer, only this loop waits: publishing and
reporting continue.
"""

from __future__ import annotations

import datetime
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from allotment.adapters.backoff import Backoff
from allotment.adapters.forge.forge import ForgeError, PullRequest, RateLimited
from allotment.adapters.git.clone import CloneDamage
from allotment.adapters.log import Log
from allotment.adapters.metrics import CommentMetrics
from allotment.problems import AllotmentError, OperationRefused
from allotment.services.loop import FAILURE_REASONS, Failure, Loop, LoopTiming, repair_if_clone
from allotment.services.pull_requests.plan_comment import PlanCommenter, PullRequestSource, group_by_head
from allotment.services.pull_requests.pull_failures import PullFailure, capture_failure
from allotment.services.pull_requests.rollout_comment import RolloutCommenter

BACKOFF = Backoff(1.0, 300.0)  # the waits after errors
# If the forge declined a request or a bug occurred, the pull request is reviewed again after this time. If the pull
# request changes, it is reviewed earlier.
RETRY_SECONDS = 3600.0
MERGE_BACKOFF = Backoff(
    60.0, RETRY_SECONDS
)  # the waits after a declined merge by self service, such as for another check
COMMENT_REASONS = ("forge", "rate-limited", *FAILURE_REASONS)
STALLED_SECONDS = 3000  # enough time to read the base and to plan ten pull requests of one commit


class PullServices(NamedTuple):
    """The services that handle one repository's pull requests."""

    pull_source: PullRequestSource
    plan_commenter: PlanCommenter
    rollout_commenter: RolloutCommenter


class CommentLoop(Loop):
    """Comments on the pull requests of one repository until it is stopped.

    `work` creates the services. The source names the forge, so `work` fails until the source can be read. The loop
    calls `work` in each turn until the call succeeds.
    """

    def __init__(
        self,
        work: Callable[[], PullServices],
        metrics: CommentMetrics,
        log: Log,
        interval: float,
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        timing = LoopTiming(interval, STALLED_SECONDS, BACKOFF)
        super().__init__(timing, log, "no comments", metrics.record_error, is_leader)
        self._create_services = work
        self._services: PullServices | None = None
        self._metrics = metrics
        metrics.initialize_reasons(COMMENT_REASONS)
        self._reviewed_states: dict[int, tuple[str, str, str, tuple[int, ...]]] = {}
        self._review_retry_at: dict[int, float] = {}  # by pull request without a verdict: the time of its next review
        self._declined_merges: Counter[int] = Counter()
        self._open_heads: dict[str, int] = {}  # head commits in the last round, each with the number of a pull request
        self._logged_failures: dict[int, str] = {}
        self._run_failures: list[str] = []  # the failures of single pull requests in this turn

    def ready(self) -> bool:
        """Return True: a restart of this replica would not bring back an unreachable forge."""
        return True

    @property
    def display_url(self) -> str:
        """The URL of the source, without secrets."""
        return str(self._services.pull_source.remote) if self._services else ""

    def on_leadership_lost(self) -> None:
        """Forget nothing: each round reads the earlier comments from the forge."""

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone. If it was replaced, create the services again and review every pull request again."""
        all_errors, self._run_failures = [*errors, *self._run_failures], []
        if self._services is None:
            return None
        damage = repair_if_clone(self._services.pull_source.remote.repository, all_errors)
        if damage is not None and damage.is_replaced:
            self._services = None
            self._reviewed_states.clear()
            self._review_retry_at.clear()
        return damage

    def classify_error(self, error: Exception) -> Failure:
        """Return the failure for an exception. If the forge sets a waiting time, the failure includes this time."""
        if isinstance(error, RateLimited):
            return Failure("rate-limited", str(error), retry_after=error.seconds)
        return Failure("forge", str(error)) if isinstance(error, ForgeError) else super().classify_error(error)

    def run_once(self) -> Failure | None:
        """Do one round: mark new commits as pending, retract statuses, follow the merges, and review pull requests.

        The status of a commit is retracted if the commit is no longer the head of an open pull request. The review
        covers each open pull request that has changed, or that has a changed base. If the merges can't be followed now,
        the reviews still take place, and the failure is returned.
        """
        self._services = self._services or self._create_services()
        place = self._services.pull_source
        requests = list(place.forge.open_pull_requests(place.branch))
        groups = group_by_head(sorted(requests, key=lambda request: (self._is_reviewed(request), request.number)))
        for alike in groups:
            if not all(map(self._is_reviewed, alike)):
                self._announce_pending(self._services.plan_commenter, alike)
        self._retract_closed(self._services.plan_commenter, {request.head: request.number for request in requests})
        name = f"refs/heads/{place.branch}"
        base = place.remote.fetch(name).get(name)
        if base is None:
            raise OperationRefused(f"the source has no branch {place.branch}")
        trouble = self._follow_merges(self._services.rollout_commenter, len(requests))
        for alike in groups:
            if self.stop_event.is_set():
                return None
            self.heartbeat()
            self._review_head(self._services.plan_commenter, alike, base)
        closed = self._reviewed_states.keys() - {request.number for request in requests}
        self._review_soon(self._services.plan_commenter.joint_claims.forget(closed))
        for number in closed:
            del self._reviewed_states[number]
            self._review_retry_at.pop(number, None)
            self._declined_merges.pop(number, None)
        place.remote.repository.run_maintenance()
        return None if trouble is None else Failure(trouble.reason, trouble.message)

    def _is_reviewed(self, request: PullRequest) -> bool:
        """Return whether a pull request is unchanged since its last review, except for its base.

        Pull requests that have changed are reviewed before pull requests with only a changed base.
        """
        review_state = self._reviewed_states.get(request.number)
        return review_state is not None and (review_state[0], review_state[2]) == (request.head, request.updated_at)

    def _follow_merges(self, rollouts: RolloutCommenter, requests: int) -> PullFailure | None:
        """Follow the merged pull requests.

        If they can't be read now, return the failure instead of raising an error, so that open pull requests are still
        reviewed. Only a rate limit and an invalid token raise an error, because a review would fail too.
        """
        outcome = capture_failure(partial(rollouts.follow_merges, datetime.datetime.now(datetime.UTC)))
        if isinstance(outcome, PullFailure):
            return outcome
        self._metrics.record_open_requests(requests, outcome.in_progress)
        for number, trouble in outcome.failures.items():
            self._log_pull_failure("no rollout", number, trouble)
        return None

    def _retract_closed(self, reviews: PlanCommenter, open_heads: dict[str, int]) -> None:
        """Retract the status of commits that no longer belong to an open pull request.

        If a retraction fails and a retry is useful, the next round repeats it.
        """
        retries: dict[str, int] = {}
        for head, number in self._open_heads.items():
            if head not in open_heads:
                trouble = capture_failure(partial(reviews.retract, number, head))
                if trouble is not None:
                    self._log_pull_failure("not taken back", number, trouble)
                    retries |= {} if trouble.is_permanent else {head: number}
        self._open_heads = open_heads | retries

    def _announce_pending(self, reviews: PlanCommenter, alike: list[PullRequest]) -> None:
        """Set the status of a commit to pending.

        Ignores most errors, because the next review logs its own errors. Raises RateLimited and InvalidToken.
        """
        capture_failure(partial(reviews.announce_pending, alike))

    def _review_head(self, reviews: PlanCommenter, alike: list[PullRequest], base: str) -> None:
        """Review all pull requests of one commit, unless all are unchanged since their last review and no retry is due.

        An approval changes `updated_at`, so every approval causes a review.
        """
        numbers = tuple(sorted(pull_request.number for pull_request in alike))
        review_states = {
            pull_request.number: (pull_request.head, base, pull_request.updated_at, numbers) for pull_request in alike
        }
        is_due = any(time.monotonic() >= self._review_retry_at.get(number, math.inf) for number in numbers)
        if not is_due and all(
            self._reviewed_states.get(number) == review_state for number, review_state in review_states.items()
        ):
            return
        request = alike[0]
        verdict = capture_failure(partial(reviews.review, request.number, request.head, alike), (AllotmentError,))
        for number in numbers:
            self._review_retry_at.pop(number, None)
        if isinstance(verdict, PullFailure):
            self._log_pull_failure("no verdict", request.number, verdict)
            if verdict.is_permanent:
                self._review_retry_at[request.number] = time.monotonic() + RETRY_SECONDS
                self._reviewed_states |= review_states
        elif verdict.state:
            self._metrics.record_review(verdict.state)
            self.log.info("reviewed", number=request.number, head=request.head, base=base, verdict=verdict.message)
            self._reviewed_states |= review_states
            self._review_soon(verdict.outdated)
            if verdict.merge == "merged" and verdict.order is not None:
                about = {
                    "tenant": verdict.order.tenant,
                    "changes": verdict.order.changes,
                    "plan": verdict.order.checksum,
                }
                self.log.info("merged", number=request.number, head=request.head, author=str(request.author), **about)
            elif verdict.merge == "declined":
                self._declined_merges[request.number] += 1
                wait = MERGE_BACKOFF.delay(self._declined_merges[request.number])
                self._review_retry_at[request.number] = time.monotonic() + wait

    def _review_soon(self, numbers: Iterable[int]) -> None:
        """Review pull requests again in the next round, even if they are unchanged."""
        for number in numbers:
            self._review_retry_at[number] = 0.0

    def _log_pull_failure(self, event: str, number: int, trouble: PullFailure) -> None:
        self._metrics.record_error(trouble.reason)
        self._run_failures.append(trouble.message)
        if self._logged_failures.get(number) != trouble.message:
            self._logged_failures[number] = trouble.message
            self.log.error(event, number=number, reason=trouble.reason, message=trouble.message)
