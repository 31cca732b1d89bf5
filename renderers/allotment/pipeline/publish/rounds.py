"""Round after round: looks at the source and the rendered branches, and publishes when anything isn't as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from allotment.adapters.git.clone import Damage
from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.remote import Remote, Unsound
from allotment.adapters.git.rendered import Unproven, tips
from allotment.adapters.git.trees import MalformedTree
from allotment.adapters.metrics import Metrics
from allotment.pipeline.declared import cluster_names, reporter_keys
from allotment.pipeline.log import Log
from allotment.pipeline.loop import REASONS, Failure, Loop, Pace, repair
from allotment.pipeline.publish.kept import PlatformInvalid
from allotment.pipeline.publish.known import Known
from allotment.pipeline.publish.publication import Braked, KeyMissing, Outcome, Publisher, Rewound
from allotment.problems import AllotmentError, Refused

AGAIN_SECONDS = 600  # what is on its way out goes on at least so often
STALLED_SECONDS = 600
MALFORMED = (MalformedTree, TooMuch, Unsound)
_REASONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (  # of errors that no restart mends
    ((Braked,), "braked"),
    ((Rewound,), "rewound"),
    ((Unproven, KeyMissing), "unsigned"),
    (MALFORMED, "malformed"),
)
PUBLISH_REASONS = ("platform-invalid", *(reason for _, reason in _REASONS), "unreachable", *REASONS)


class _Seen(NamedTuple):
    """What the repositories held when all was well: the source's tip, every ref of ours, what was known of each
    tenant, and when each cluster was looked at that has something on its way out."""

    source: str
    refs: tuple[tuple[str, str | None, str | None], ...]
    known: Mapping[str, Known]
    moments: Mapping[str, str]


class Rounds(Loop):
    """Publishes the newest commit of a branch, again and again, until it is stopped."""

    def __init__(
        self,
        source: Remote,
        branch: str,
        publisher: Publisher,
        metrics: Metrics,
        log: Log,
        interval: float,
        *,
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(Pace(interval, STALLED_SECONDS), log, "nothing published", metrics.failed, leading)
        self._source = source
        self._branch = f"refs/heads/{branch}"
        self._publisher = publisher
        self._metrics = metrics
        metrics.begin(PUBLISH_REASONS)
        self._distrusted: dict[str, str] = {}
        self._seen: _Seen | None = None
        self._due = 0.0

    def stand_by(self) -> None:
        """Forget what was seen."""
        self._seen = None

    def repair(self, errors: Sequence[str]) -> Damage | None:
        """Check the clone, and forget its objects if it was replaced."""
        damage = repair(self._publisher.repository, [*errors, *self._publisher.statuses.troubles.values()])
        if damage is not None and damage.replaced:
            self._publisher.forget()
        return damage

    def failure(self, error: Exception) -> Failure:
        """Return why nothing was published."""
        if isinstance(error, PlatformInvalid):
            return Failure("platform-invalid", "; ".join(str(problem) for problem in error.problems), reached=True)
        for kinds, reason in _REASONS:
            if isinstance(error, kinds):
                return Failure(reason, str(error), reached=True)
        if isinstance(error, Refused):
            return Failure("unreachable", str(error))
        return super().failure(error)._replace(reached=isinstance(error, AllotmentError))

    def turn(self) -> None:
        """Publish the newest commit, unless all is as it was when that was done."""
        seen, self._seen = self._seen, None  # nothing counts as seen until all is well
        tip = self._source.fetch(self._branch).get(self._branch)
        if tip is None:
            raise Refused(f"the source has no branch {self._branch}")
        now = time.monotonic()
        if seen is not None and now < self._due and self._look(tip) == seen:
            self._seen = seen
            return
        self._metrics.declared(cluster_names(self._publisher.switch_to(tip)))
        begun = time.monotonic()
        outcome = self._publisher.publish(tip)
        self._tell(outcome, time.monotonic() - begun, seen)
        # What was published, not what is there by now: somebody may have been quick.
        refs = tuple((name, commit, commit) for name, commit in sorted(outcome.tips.items()))
        statuses = self._publisher.statuses
        self._seen, self._due = _Seen(tip, refs, statuses.known, statuses.moments()), now + AGAIN_SECONDS
        self._publisher.repository.tidy()

    def _look(self, tip: str) -> _Seen:
        source = self._publisher.switch_to(tip)
        refs = tips(self._publisher.remote, cluster_names(source))
        observed_tenants = self._publisher.statuses.read(reporter_keys(source))
        self._distrust()
        return _Seen(tip, refs, observed_tenants, self._publisher.statuses.moments())

    def _distrust(self) -> None:
        """Say of each cluster, once, what is wrong with its status."""
        troubles = self._publisher.statuses.troubles
        for cluster, words in troubles.items():
            if self._distrusted.get(cluster) != words:
                self.log.warning("status in doubt", cluster=cluster, message=words)
        self._distrusted = dict(troubles)

    @property
    def where(self) -> str:
        """Where the source is, as it may be shown."""
        return str(self._source)

    def _tell(self, outcome: Outcome, seconds: float, seen: _Seen | None) -> None:
        self._distrust()
        assembly = outcome.assembly
        if assembly is None:
            self.log.info("newer source is published", source=outcome.source, newer=outcome.newer)
            return
        for cluster_commit in outcome.committed:
            counts = {
                word: cluster_commit.count(letter)
                for word, letter in (("added", "A"), ("changed", "M"), ("removed", "D"))
            }
            self.log.info(
                "published",
                cluster=cluster_commit.cluster,
                commit=cluster_commit.commit,
                source=outcome.source,
                **counts,
            )
            if cluster_commit.replaced:
                self.log.warning(
                    "foreign commit replaced", cluster=cluster_commit.cluster, commit=cluster_commit.replaced
                )
            elif cluster_commit.lagged:
                self.log.warning("branch was behind", cluster=cluster_commit.cluster, commit=cluster_commit.commit)
        log_calls: list[tuple[Callable[..., Any], str, dict[str, Any]]] = [
            *(
                (
                    self.log.warning,
                    "tenant kept",
                    {"tenant": tenant, "reason": reason, "problems": [*map(str, problems)]},
                )
                for tenant, (reason, problems) in assembly.kept.items()
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
                for tenant, trace in assembly.traces.items()
            ),
            *((self.log.warning, "record in doubt", {"message": words}) for words in [outcome.record_trouble] if words),
            *((self.log.warning, "instance waits", {"message": words}) for words in assembly.waiting),
            *((self.log.info, "leaving", {"message": words}) for words in assembly.leaving),
            *((self.log.info, "change waits", {"message": words}) for words in assembly.held),
            *((self.log.warning, "units held", {"message": words}) for words in assembly.holding),
            *(
                (self.log.warning, "published with a warning", {"message": str(problem)})
                for problem in assembly.problems
            ),
        ]
        if outcome.committed or seen is None or seen.source != outcome.source:
            for say, event, about in log_calls:
                say(event, **about)
        self._metrics.published(
            seconds,
            time.time(),
            outcome.source,
            tips=outcome.tips,
            changed=[problem.cluster for problem in outcome.committed],
            foreign=[cluster_commit.cluster for cluster_commit in outcome.committed if cluster_commit.replaced],
            rendered=assembly.rendered,
            retained_tenants=assembly.kept,
            waiting=len(assembly.waiting),
        )
