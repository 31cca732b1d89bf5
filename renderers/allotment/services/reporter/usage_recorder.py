"""Collects the usage of a cluster that isn't written yet: ended intervals, capacity, and gaps in the observation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from allotment.observed.objects import Deployment, Node, ObservedObject
from allotment.observed.status import CapacityUsage, TenantStatus, UsageInterval
from allotment.observed.usage import derive_capacity_usage, merge_ended, restore_starts
from allotment.services.reporter.observation_gaps import GapFinder, WatchState

MAX_PENDING = 5_000  # changes of a kind that are stored for a tenant while nothing can be pushed


class UsageRecorder:
    """Collects ended usage until it is written, also while the status branch can't be pushed or read.

    - `pending` has the ended intervals of each tenant that no commit contains yet.
    - `capacity` has the stocks and nodes of the cluster, and those that have ended and that no commit contains yet.
    - `gaps` finds the gaps in the observation.
    """

    def __init__(self, cluster: str, watches: Sequence[WatchState]) -> None:
        self.gaps = GapFinder(watches)
        self.pending: dict[str, list[UsageInterval]] = defaultdict(list)
        self.capacity = CapacityUsage(cluster)
        # Until the usage since the written status is complete, a repeated resume needs these intervals again.
        self._observed_usage: dict[str, tuple[UsageInterval, ...]] = {}
        self._observed_ended: dict[str, list[UsageInterval]] = {}
        self._observed_capacity: tuple[UsageInterval, ...] = ()

    def begin_resume(self, observed_at: str, capacity: CapacityUsage, statuses: Mapping[str, TenantStatus]) -> None:
        """Continue from the status that was written at `observed_at`. `statuses` are those that this process observed."""
        for tenant, intervals in self.pending.items():
            self._observed_ended[tenant] = [*intervals, *self._observed_ended.get(tenant, ())]
        self.pending.clear()
        self._observed_usage = {tenant: status.usage for tenant, status in statuses.items()} | self._observed_usage
        self._observed_capacity = (*self.capacity.ended_usage, *self._observed_capacity)
        self.capacity = without_ended_capacity(capacity)
        self.gaps.resume(observed_at, capacity.gaps)

    def finish_resume(
        self, written: Mapping[str, TenantStatus], written_capacity: CapacityUsage, statuses: dict[str, TenantStatus]
    ) -> None:
        """Restore, in `statuses` and `pending`, the times that this process observed and that aren't `written`.

        An interval that this process saw end has its exact end, unless the written status already has an end.
        """
        for tenant, observed in self._observed_usage.items():
            if tenant in statuses:
                recorded = written[tenant].usage if tenant in written else ()
                usage = restore_starts(statuses[tenant].usage, observed, recorded)
                statuses[tenant] = msgspec.structs.replace(statuses[tenant], usage=usage)
        for tenant, intervals in self._observed_ended.items():
            ended = written[tenant].ended_usage if tenant in written else ()
            if merged := merge_ended(self.pending.get(tenant, ()), intervals, ended):
                self.pending[tenant] = list(merged)
                statuses.setdefault(tenant, TenantStatus(tenant, self.capacity.cluster))
        ended_capacity = merge_ended(self.capacity.ended_usage, self._observed_capacity, written_capacity.ended_usage)
        self.capacity = msgspec.structs.replace(self.capacity, ended_usage=ended_capacity)
        self._forget_observed()

    def add(self, tenant: str, ended: Sequence[UsageInterval]) -> None:
        """Add intervals of a tenant that have ended, up to MAX_PENDING."""
        if ended:
            self.pending[tenant] += ended[: max(0, MAX_PENDING - len(self.pending[tenant]))]

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
        self.capacity = msgspec.structs.replace(
            self.capacity,
            since=self.capacity.since or now,
            usage=usage.current,
            ended_usage=(*self.capacity.ended_usage, *usage.ended)[:MAX_PENDING],
        )

    def build_capacity(self, previous: str) -> CapacityUsage:
        """Return the content of the file of the capacity. `previous` is the commit with its previous version."""
        return msgspec.structs.replace(self.capacity, gaps=tuple(self.gaps.pending), previous=previous)

    def is_capacity_changed(self, written: CapacityUsage) -> bool:
        """Return whether the capacity differs from the `written` capacity, or a gap is not written yet."""
        return bool(self.gaps.pending) or self.capacity != written

    def mark_written(self, tenants: Iterable[str]) -> None:
        """Record that the pending usage of these tenants, the ended capacity and the pending gaps are written."""
        self.gaps.pending.clear()
        self.capacity = without_ended_capacity(self.capacity)
        for tenant in tenants:
            self.pending.pop(tenant, None)

    def forget(self) -> None:
        """Forget what no commit contains, because another replica reports the cluster and observes it too."""
        self.pending.clear()
        self.capacity = without_ended_capacity(self.capacity)
        self._forget_observed()
        self.gaps.forget()

    def _forget_observed(self) -> None:
        self._observed_usage, self._observed_ended, self._observed_capacity = {}, {}, ()


def without_ended_capacity(capacity: CapacityUsage) -> CapacityUsage:
    """Return the capacity without ended intervals, gaps and the commit of the previous version."""
    return msgspec.structs.replace(capacity, ended_usage=(), gaps=(), previous="")
