"""Defines the recorded uses of units, storages and snapshots, and of the capacity of clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.billing.periods import Period, parse_moment
from allotment.declared.tenant_resources import INSTANCE
from allotment.observed.quantity import parse_quantity
from allotment.observed.status import UsageInterval

MAX_SIZE = 1 << 60  # bytes: a larger size in a status is no size


class Use(NamedTuple):
    """A use of a unit or of a size, or, for the kinds Stock and NodePool, a part of the capacity.

    - `offer` is the GPUSpec or the StorageSpec. `size` is in bytes, and 0 for units. `units` are the units of a stock.
    - The use lasted from `start` until `certain_end` for certain. Between `certain_end` and `end`, nobody observed it.
    - `is_open` says that it continued at `end`, the time of the last observation.
    - `commit` is the commit of the status branch that has the interval.
    """

    cluster: str
    tenant: str
    kind: str
    name: str
    uid: str
    offer: str
    size: int
    units: int
    labels: Mapping[str, str]
    node: str
    start: int
    certain_end: int
    end: int
    is_open: bool
    commit: str

    @property
    def weight(self) -> int:
        """The used amount: 1 unit, or the bytes of a storage or snapshot."""
        return 1 if self.kind == INSTANCE.kind.name else self.size


class ClusterRecord(NamedTuple):
    """The record of a cluster's status branch.

    - `observed_until` is the time of the last observation, and `recorded_since` that of the first; None if there is none.
    - `is_signed` says that the cluster declares the key of its reporter, so that nobody else can write the record.
    - `problems` are the reasons why a part of the record can't be read.
    - `gaps` are the times in which nobody observed the cluster. `capacity` are its stocks and nodes.
    """

    cluster: str
    observed_until: int | None
    recorded_since: int | None
    is_signed: bool
    commit: str
    problems: tuple[str, ...]
    gaps: tuple[tuple[int, int], ...]
    capacity: tuple[Use, ...]

    def find_gaps(self, period: Period) -> list[tuple[int, int]]:
        """Return the gaps within a period."""
        clipped = [period.clip(start, end) for start, end in self.gaps]
        return [(start, end) for start, end in clipped if start < end]


class UsageRecord(NamedTuple):
    """The record of all clusters, the uses of tenants, in the order of cluster, tenant and start, and the recorded tenants."""

    clusters: tuple[ClusterRecord, ...]
    uses: tuple[Use, ...]
    tenants: frozenset[str]


def read_interval(interval: UsageInterval, cluster: str, tenant: str, observed_until: int, commit: str) -> Use:
    """Return the use that an interval of a status records."""
    start = parse_moment(interval.start_time)
    if interval.end_time:
        end = max(start, parse_moment(interval.end_time))
        certain_end = parse_moment(interval.last_observed_at) if interval.last_observed_at else end
        certain_end = min(max(start, certain_end), end)
    else:
        end = certain_end = max(start, observed_until)
    return Use(
        cluster=cluster,
        tenant=tenant,
        kind=interval.kind,
        name=interval.name,
        uid=interval.uid,
        offer=interval.gpu_spec or interval.storage_spec,
        size=min(max(0, int(parse_quantity(interval.size))), MAX_SIZE) if interval.size else 0,
        units=interval.units,
        labels=interval.labels,
        node=interval.node,
        start=start,
        certain_end=certain_end,
        end=end,
        is_open=not interval.end_time,
        commit=commit,
    )


def drop_overlaps(uses: Iterable[Use]) -> list[Use]:
    """Return uses of a cluster in which no object uses two things at a time, sorted by start.

    The clock of a cluster may be set back, and an interval may be recorded twice. If two uses of the same object overlap,
    the later use begins with the end of the earlier use.
    """
    by_object: dict[tuple[str, str, str], list[Use]] = defaultdict(list)
    for use in uses:
        by_object[use.tenant, use.kind, use.uid].append(use)
    result = []
    for uses_of_object in by_object.values():
        until = 0
        for use in sorted(uses_of_object, key=lambda use: (use.start, use.end)):
            start = max(use.start, until)
            if start < use.end or start == use.start:
                result.append(use._replace(start=start, certain_end=max(start, use.certain_end)))
            until = max(until, use.end)
    result.sort(key=lambda use: (use.tenant, use.start, use.kind, use.name, use.uid))
    return result
