"""Runs the publisher in a loop: publishes when the source, a rendered branch or the observed state has changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from allotment.adapters.git.clone import CloneDamage
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.remote import AccessDenied, Remote, UnsoundObjects
from allotment.adapters.git.trees import MalformedTree
from allotment.adapters.log import Log
from allotment.adapters.metrics import Metrics
from allotment.branches.platform_settings import list_cluster_names, read_reporter_keys
from allotment.branches.rendered_branches import PublicationUnproven, list_tips
from allotment.problems import OperationRefused
from allotment.services.loop import FAILURE_REASONS, Failure, Loop, LoopTiming, repair_if_clone
from allotment.services.publish.observed_state import ObservedTenant
from allotment.services.publish.publisher import BrakeEngaged, KeyMissing, Publisher, PublishResult, SourceRewound
from allotment.services.publish.tenant_retention import PlatformInvalid

REPUBLISH_SECONDS = 600  # after this time, publish without a change, so that deletions in progress advance
STALLED_SECONDS = 600
MALFORMED_ERRORS = (MalformedTree, LimitExceeded, UnsoundObjects)
# The failure reasons of errors that a restart does not fix.
_ERROR_REASONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((BrakeEngaged,), "braked"),
    ((SourceRewound,), "rewound"),
    ((PublicationUnproven, KeyMissing), "unsigned"),
    (MALFORMED_ERRORS, "malformed"),
)
PUBLISH_REASONS = ("platform-invalid", *(reason for _, reason in _ERROR_REASONS), *FAILURE_REASONS)


class _Snapshot(NamedTuple):
    """The state at the last successful publish.

    It holds the source's tip, the refs of each cluster, the observed tenants, and the status times that pending
    deletions depend on.
    """

    source_commit: str
    refs: tuple[tuple[str, str | None, str | None], ...]
    tenants: Mapping[str, ObservedTenant]
    deletion_clock: Mapping[str, str]


class PublishLoop(Loop):
    """Publishes the newest commit of a branch repeatedly, until it is stopped."""

    def __init__(
        self,
        source: Remote,
        branch: str,
        publisher: Publisher,
        metrics: Metrics,
        log: Log,
        interval: float,
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(
            LoopTiming(interval, STALLED_SECONDS), log, "nothing published", metrics.record_error, is_leader
        )
        self._source = source
        self._branch = f"refs/heads/{branch}"
        self._publisher = publisher
        self._metrics = metrics
        metrics.initialize_reasons(PUBLISH_REASONS)
        self._logged_troubles: dict[str, str] = {}
        self._last_snapshot: _Snapshot | None = None
        self._due_at = 0.0

    def on_leadership_lost(self) -> None:
        """Forget the last snapshot."""
        self._last_snapshot = None

    def repair_clone(self, errors: Sequence[str]) -> CloneDamage | None:
        """Check the clone, and clear the publisher's caches if the clone was replaced."""
        damage = repair_if_clone(
            self._publisher.repository, [*errors, *self._publisher.status_reader.state.troubles.values()]
        )
        if damage is not None and damage.is_replaced:
            self._publisher.forget()
        return damage

    def classify_error(self, error: Exception) -> Failure:
        """Return the failure, with the reason why nothing was published."""
        if isinstance(error, PlatformInvalid):
            return Failure("platform-invalid", "; ".join(str(problem) for problem in error.problems), connected=True)
        for kinds, reason in _ERROR_REASONS:
            if isinstance(error, kinds):
                return Failure(reason, str(error), connected=True)
        failure = super().classify_error(error)
        return failure._replace(connected=failure.reason == "refused" and not isinstance(error, AccessDenied))

    def run_once(self) -> None:
        """Publish the newest commit, unless nothing has changed since a publish in the last REPUBLISH_SECONDS."""
        previous_snapshot, self._last_snapshot = self._last_snapshot, None  # if this run fails, there is no snapshot
        tip = self._source.fetch(self._branch).get(self._branch)
        if tip is None:
            raise OperationRefused(f"the source has no branch {self._branch}")
        now = time.monotonic()
        if previous_snapshot is not None and now < self._due_at and self._take_snapshot(tip) == previous_snapshot:
            self._last_snapshot = previous_snapshot
            return
        self._metrics.initialize_clusters(list_cluster_names(self._publisher.switch_to(tip)))
        begun = time.monotonic()
        outcome = self._publisher.publish(tip)
        self._log_result(outcome, time.monotonic() - begun, previous_snapshot)
        # Record the published commits, not the current tips: another push may have moved a branch after this publish.
        refs = tuple((name, commit, commit) for name, commit in sorted(outcome.tips.items()))
        observed_state = self._publisher.status_reader.state
        self._last_snapshot, self._due_at = (
            _Snapshot(tip, refs, observed_state.tenants, observed_state.deletion_clock()),
            now + REPUBLISH_SECONDS,
        )
        self._publisher.repository.run_maintenance()

    def _take_snapshot(self, tip: str) -> _Snapshot:
        source = self._publisher.switch_to(tip)
        refs = list_tips(self._publisher.remote, list_cluster_names(source))
        observed_state = self._publisher.status_reader.read(read_reporter_keys(source))
        self._log_untrusted_status()
        return _Snapshot(tip, refs, observed_state.tenants, observed_state.deletion_clock())

    def _log_untrusted_status(self) -> None:
        """Log, once for each cluster and reason, why a status is not trusted or can't be read."""
        troubles = self._publisher.status_reader.state.troubles
        for cluster, message in troubles.items():
            if self._logged_troubles.get(cluster) != message:
                self.log.warning("status in doubt", cluster=cluster, message=message)
        self._logged_troubles = dict(troubles)

    @property
    def display_url(self) -> str:
        """The address of the source, without credentials."""
        return str(self._source)

    def _log_result(self, outcome: PublishResult, seconds: float, previous_snapshot: _Snapshot | None) -> None:
        self._log_untrusted_status()
        assembly = outcome.release
        if assembly is None:
            self.log.info("newer source is published", source=outcome.source, newer=outcome.newer_source)
            return
        for cluster_commit in outcome.commits:
            counts = {
                word: cluster_commit.count_files(letter)
                for word, letter in (("added", "A"), ("changed", "M"), ("removed", "D"))
            }
            self.log.info(
                "published",
                cluster=cluster_commit.cluster,
                commit=cluster_commit.commit,
                source=outcome.source,
                **counts,
            )
            if cluster_commit.foreign_commit:
                self.log.warning(
                    "foreign commit replaced", cluster=cluster_commit.cluster, commit=cluster_commit.foreign_commit
                )
            elif cluster_commit.branch_fault:
                self.log.warning("branch restored", cluster=cluster_commit.cluster, fault=cluster_commit.branch_fault)
        log_calls: list[tuple[Callable[..., Any], str, dict[str, Any]]] = [
            *(
                (
                    self.log.warning,
                    "tenant kept",
                    {"tenant": tenant, "reason": reason, "problems": [*map(str, problems)]},
                )
                for tenant, (reason, problems) in assembly.retained_tenants.items()
            ),
            *(
                (
                    self.log.warning,
                    "cluster retained",
                    {"cluster": name, "problems": [str(problem) for problem in problems]},
                )
                for name, problems in assembly.retained_clusters.items()
            ),
            *(
                (self.log.error, "tenant ran into a bug", {"tenant": tenant, "trace": trace})
                for tenant, trace in assembly.tracebacks.items()
            ),
            *(
                (self.log.warning, "record in doubt", {"message": message})
                for message in [outcome.record_trouble]
                if message
            ),
            *((self.log.warning, "instance waits", {"message": message}) for message in assembly.waiting_instances),
            *((self.log.info, "leaving", {"message": message}) for message in assembly.pending_deletions),
            *((self.log.info, "change waits", {"message": message}) for message in assembly.pending_changes),
            *((self.log.warning, "units held", {"message": message}) for message in assembly.leaked_units),
            *(
                (self.log.warning, "published with a warning", {"message": str(problem)})
                for problem in assembly.problems
            ),
        ]
        if outcome.commits or previous_snapshot is None or previous_snapshot.source_commit != outcome.source:
            for say, event, about in log_calls:
                say(event, **about)
        self._metrics.record_publish(
            seconds,
            time.time(),
            outcome.source,
            tips=outcome.tips,
            changed=[problem.cluster for problem in outcome.commits],
            foreign=[cluster_commit.cluster for cluster_commit in outcome.commits if cluster_commit.foreign_commit],
            rendered=assembly.rendered_count,
            retained_tenants=assembly.retained_tenants,
            waiting=len(assembly.waiting_instances),
        )
