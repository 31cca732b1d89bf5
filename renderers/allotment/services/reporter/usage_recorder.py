"""Collects the usage of a cluster that isn't written yet: ended intervals, capacity, and gaps in the observation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from allotment.observed.objects import Deployment, Node, ObservedObject
from allotment.observed.status import CapacityUsage, TenantStatus, UsageInterval
from allotment.observed.usage import derive_capacity_usage, merge_ended, restore_starts
from allotment.services.reporter.observation_gaps import GapFinder, WatchState

MAX_PENDING = 5_000  # changes of a kind that are stored for a tenant while nothing can be pushed
CAPACITY_OWNER = ""  # the owner of the intervals of stocks, nodes and gaps, which belong to no tenant


class UsageRecorder:
    """Collects ended usage until it is written, also while the status branch can't be pushed or read.

    - `pending` has the ended intervals that no commit contains yet, by tenant or CAPACITY_OWNER.
    - `capacity` has the current stocks and nodes of the cluster.
    - `gaps` finds the gaps in the observation.
    """

    def __init__(self, cluster: str, watches: Sequence[WatchState]) -> None:
        self.gaps = GapFinder(cluster, watches)
        self.pending: dict[str, list[UsageInterval]] = defaultdict(list)
        self.capacity = self._written_capacity = CapacityUsage(cluster)
        # Until the usage since the written status is complete, a repeated resume needs these intervals again.
        self._observed_usage: dict[str, tuple[UsageInterval, ...]] = {}
        self._observed_ended: dict[str, list[UsageInterval]] = {}

    def begin_resume(self, observed_at: str, capacity: CapacityUsage, statuses: Mapping[str, TenantStatus]) -> None:
        """Continue from the status that was written at `observed_at`. `statuses` are those that this process observed."""
        for owner, intervals in self.list_pending().items():
            self._observed_ended[owner] = list(merge_ended(intervals, self._observed_ended.get(owner, ()), ()))
        self.pending.clear()
        self.gaps.pending.clear()
        observed = {tenant: status.usage for tenant, status in statuses.items()}
        self._observed_usage = {**observed, CAPACITY_OWNER: self.capacity.usage} | self._observed_usage
        self.capacity = self._written_capacity = capacity
        self.gaps.resume(observed_at)

    def finish_resume(
        self,
        written: Mapping[str, TenantStatus],
        read_usage: Callable[[str], Sequence[UsageInterval]],
        statuses: dict[str, TenantStatus],
    ) -> None:
        """Restore, in `statuses` and `pending`, the times that this process observed and that aren't written.

        An interval that this process saw end has its exact end, unless `read_usage`, which returns the newest written
        intervals of an owner, has an end.
        """
        observed_capacity = self._observed_usage.pop(CAPACITY_OWNER, ())
        usage = restore_starts(self.capacity.usage, observed_capacity, self._written_capacity.usage)
        self.capacity = msgspec.structs.replace(self.capacity, usage=usage)
        for tenant, observed in self._observed_usage.items():
            if tenant in statuses:
                recorded = written[tenant].usage if tenant in written else ()
                usage = restore_starts(statuses[tenant].usage, observed, recorded)
                statuses[tenant] = msgspec.structs.replace(statuses[tenant], usage=usage)
        for owner, intervals in self._observed_ended.items():
            merged = merge_ended(self.pending.pop(owner, ()), intervals, read_usage(owner))
            self.add(owner, merged)
        self._forget_observed()

    def add(self, owner: str, ended: Sequence[UsageInterval]) -> None:
        """Add intervals of a tenant or of the capacity that have ended, up to MAX_PENDING."""
        if ended:
            self.pending[owner] += ended[: max(0, MAX_PENDING - len(self.pending[owner]))]

    def observe_capacity(self, objects: Iterable[ObservedObject], now: str, last_observed_at: str) -> None:
        """Derive the stocks and nodes at the time `now` from the cluster's placeholder Deployments and nodes."""
        objects = list(objects)
        usage = derive_capacity_usage(
            [live_object for live_object in objects if isinstance(live_object, Node)],
            [live_object for live_object in objects if isinstance(live_object, Deployment)],
            self.capacity,
            now,
            last_observed_at,
        )
        self.add(CAPACITY_OWNER, usage.ended)
        self.capacity = msgspec.structs.replace(self.capacity, since=self.capacity.since or now, usage=usage.current)

    def list_pending(self) -> dict[str, list[UsageInterval]]:
        """Return the ended intervals that no commit contains yet, with the gaps, by tenant or CAPACITY_OWNER."""
        if not self.gaps.pending:
            return self.pending
        return {**self.pending, CAPACITY_OWNER: [*self.pending.get(CAPACITY_OWNER, ()), *self.gaps.pending]}

    def mark_written(self) -> None:
        """Record that all pending intervals and gaps are written."""
        self.gaps.pending.clear()
        self.pending.clear()

    def forget(self) -> None:
        """Forget the pending usage, because another replica reports the cluster and observes it too."""
        self.pending.clear()
        self.capacity = CapacityUsage(self.capacity.cluster)
        self._forget_observed()
        self.gaps.forget()

    def _forget_observed(self) -> None:
        self._observed_usage, self._observed_ended = {}, {}
