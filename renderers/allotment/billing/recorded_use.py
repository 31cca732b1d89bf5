"""Defines the recorded uses of units, storages and snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from allotment.billing.periods import Period, parse_moment
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE
from allotment.observed.quantity import parse_quantity
from allotment.observed.status import UsageInterval

RESERVED_KIND = "Stock"  # of the uses that are reserved units without a use (`billing.reservations`)
USED_KINDS = frozenset({INSTANCE.kind.name, STORAGE.kind.name, SNAPSHOT.kind.name})
MAX_SIZE = 1 << 60  # bytes: a larger size in a status is no size
MAX_UNITS = 1 << 30  # a stock in a status has at most this many units


class Use(NamedTuple):
    """A use of a unit, or of a storage or snapshot.

    - `offer` is the GPUSpec or the StorageSpec. `size` is in bytes, and 0 for units.
    - The use lasted from `start` until `certain_end` for certain. Between `certain_end` and `end`, nobody observed it.
    - `is_open` says that it continued at `end`, the time of the last observation.
    - `commit` is the commit of the status branch that has the interval.
    - `fraction` is the part of the price that the use costs.
    """

    cluster: str
    tenant: str
    kind: str
    name: str
    uid: str
    offer: str
    size: int
    labels: Mapping[str, str]
    node: str
    start: int
    certain_end: int
    end: int
    is_open: bool
    commit: str
    fraction: Decimal = Decimal(1)

    @property
    def weight(self) -> int:
        """The used amount: 1 unit, the reserved units, or the bytes of a storage or snapshot."""
        return 1 if self.kind == INSTANCE.kind.name else self.size


class StockTime(NamedTuple):
    """The time in which a stock had units of a GPUSpec, certain from `start` until `certain_end`.

    `tenant` is the tenant that the stock is reserved for; empty for a shared stock. `commit` is the commit of the status branch that
    was read.
    """

    cluster: str
    name: str
    uid: str
    tenant: str
    gpu_spec: str
    units: int
    start: int
    certain_end: int
    commit: str = ""


class ClusterRecord(NamedTuple):
    """The record of a cluster's status branch.

    - `observed_until` is the time of the last observation, and `recorded_since` that of the first; None if there is none.
    - `is_signed` says that the cluster declares the key of its reporter, so that nobody else can write the record.
    - `is_declared` is false if the cluster has a status branch, but no declaration. Then nothing is read.
    - `problems` are the reasons why a part of the record can't be read. `tenant_problems` has those of them that concern only one
      tenant.
    - `gaps` are the times in which nobody observed the cluster.
    """

    cluster: str
    observed_until: int | None
    recorded_since: int | None
    is_signed: bool
    commit: str
    problems: tuple[str, ...]
    gaps: tuple[tuple[int, int], ...]
    is_declared: bool = True
    tenant_problems: Mapping[str, Collection[str]] = {}

    def select_tenants(self, tenants: Collection[str]) -> ClusterRecord:
        """Return the record without the problems that concern only other tenants."""
        others = {text for tenant, texts in self.tenant_problems.items() if tenant not in tenants for text in texts}
        return self._replace(
            problems=tuple(text for text in self.problems if text not in others),
            tenant_problems={tenant: texts for tenant, texts in self.tenant_problems.items() if tenant in tenants},
        )

    @staticmethod
    def of_undeclared(cluster: str, problem: str) -> ClusterRecord:
        """Return the record of a cluster without a declaration, with the reason why nothing is read."""
        return ClusterRecord(
            cluster,
            observed_until=None,
            recorded_since=None,
            is_signed=False,
            commit="",
            problems=(problem,),
            gaps=(),
            is_declared=False,
        )

    def covers_end(self, period: Period) -> bool:
        """Return whether the recording began before the end of a period and continued until its end, and can be read."""
        return (
            not self.problems
            and self.recorded_since is not None
            and self.observed_until is not None
            and self.recorded_since < period.end <= self.observed_until
        )

    def find_gaps(self, period: Period) -> list[tuple[int, int]]:
        """Return the gaps within a period."""
        clipped = [period.clip(start, end) for start, end in self.gaps]
        return [(start, end) for start, end in clipped if start < end]


class UsageRecord(NamedTuple):
    """The record of all clusters, the uses of tenants, in the order of cluster, tenant and start, and the recorded tenants.

    `stocks` are the times of stocks, in the order of cluster, name and start.
    """

    clusters: tuple[ClusterRecord, ...]
    uses: tuple[Use, ...]
    tenants: frozenset[str]
    stocks: tuple[StockTime, ...] = ()

    @property
    def troubled_tenants(self) -> set[str]:
        """The tenants with problems of their own."""
        return {tenant for record in self.clusters for tenant in record.tenant_problems}

    def select_tenants(self, tenants: Collection[str]) -> UsageRecord:
        """Return the record of some tenants, without the problems that concern only other tenants."""
        return self._replace(
            clusters=tuple(record.select_tenants(tenants) for record in self.clusters),
            uses=tuple(use for use in self.uses if use.tenant in tenants),
            tenants=self.tenants & frozenset(tenants),
        )


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
        labels=interval.labels,
        node=interval.node,
        start=start,
        certain_end=certain_end,
        end=end,
        is_open=not interval.end_time,
        commit=commit,
    )


def read_stock(interval: UsageInterval, cluster: str, observed_until: int, commit: str) -> StockTime:
    """Return the time of a stock that an interval of a status records."""
    start = parse_moment(interval.start_time)
    end = parse_moment(interval.last_observed_at or interval.end_time) if interval.end_time else observed_until
    return StockTime(
        cluster=cluster,
        name=interval.name,
        uid=interval.uid,
        tenant=interval.tenant,
        gpu_spec=interval.gpu_spec,
        units=min(max(0, interval.units), MAX_UNITS),
        start=start,
        certain_end=max(start, end),
        commit=commit,
    )


def drop_stock_overlaps(stocks: Iterable[StockTime]) -> list[StockTime]:
    """Return stock times in which no stock has two numbers of units at a time, sorted by name and start."""
    result: list[StockTime] = []
    until: dict[str, int] = {}
    for stock in sorted(set(stocks), key=lambda stock: (stock.name, stock.start, -stock.certain_end)):
        start = max(stock.start, until.get(stock.name, 0))
        if start < stock.certain_end:
            result.append(stock._replace(start=start))
            until[stock.name] = stock.certain_end
    return result


def drop_overlaps(uses: Iterable[Use]) -> list[Use]:
    """Return uses of a cluster in which no object uses two things at a time, sorted by start.

    The clock of a cluster may be set back, and an interval may be recorded twice. Of two uses of an object with the same
    start, the use with the certain end counts. If two others overlap, the later use begins with the end of the earlier use.
    """
    by_object: dict[tuple[str, str, str], list[Use]] = defaultdict(list)
    for use in uses:
        by_object[use.tenant, use.kind, use.uid].append(use)
    result = []
    for uses_of_object in by_object.values():
        until = 0
        for use in _prefer_certain(uses_of_object):
            start = max(use.start, until)
            if start < use.end or start == use.start:
                result.append(use._replace(start=start, certain_end=max(start, use.certain_end)))
            until = max(until, use.end)
    result.sort(key=lambda use: (use.tenant, use.start, use.kind, use.name, use.uid))
    return result


def _prefer_certain(uses: Iterable[Use]) -> list[Use]:
    """Return the uses of an object, sorted by start. A use with a certain end replaces another use with the same start."""
    by_start: dict[int, Use] = {}
    for use in sorted(uses, key=lambda use: (use.start, use.certain_end < use.end, -use.end)):
        by_start.setdefault(use.start, use)
    return list(by_start.values())


def merge_gaps(gaps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return gaps without overlaps, sorted."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(gaps):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged
