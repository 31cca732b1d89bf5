"""Divides the time of stocks into sold, reserved and idle units.

The units that a tenant uses count in the stocks reserved for it first, and then in the shared stocks, as
`observed.stocks.derive_stocks` counts them. Units beyond the stocks are oversold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.billing.periods import Period
from allotment.billing.recorded_use import StockTime, Use
from allotment.declared.tenant_resources import INSTANCE


class CapacityTotal(NamedTuple):
    """The unit × seconds of a GPUSpec in a cluster.

    `stock` = `sold` + `reserved` + `idle`. `reserved` are the unused units of stocks that are reserved for a tenant. `oversold`
    are the units in use beyond the stocks, so tenants used `sold` + `oversold`.
    """

    cluster: str
    gpu_spec: str
    stock: int = 0
    sold: int = 0
    reserved: int = 0
    idle: int = 0
    oversold: int = 0


class UnitTime(NamedTuple):
    """The time in which a tenant used a unit of the GPUSpec `offer` for certain."""

    cluster: str
    offer: str
    tenant: str
    start: int
    certain_end: int

    @property
    def kind(self) -> str:
        """The kind of the resource that uses units."""
        return INSTANCE.kind.name


class _Event(NamedTuple):
    """A change of the units in use by a tenant, or of the units reserved for it. The shared stocks have the tenant ""."""

    time: int
    tenant: str
    used: int
    stocked: int


def sum_capacity(stocks: Iterable[StockTime], uses: Iterable[Use | UnitTime], period: Period) -> list[CapacityTotal]:
    """Return the sums of each cluster and GPUSpec within a period, sorted.

    Storages and snapshots don't count, and neither does the time in which nobody observed a use or a stock.
    """
    events: dict[tuple[str, str], list[_Event]] = defaultdict(list)
    for stock in stocks:
        start, end = period.clip(stock.start, stock.certain_end)
        events[stock.cluster, stock.gpu_spec] += [
            _Event(start, stock.tenant, 0, stock.units),
            _Event(end, stock.tenant, 0, -stock.units),
        ]
    for use in uses:
        start, end = period.clip(use.start, use.certain_end)
        if use.kind == INSTANCE.kind.name and start < end:
            events[use.cluster, use.offer] += [_Event(start, use.tenant, 1, 0), _Event(end, use.tenant, -1, 0)]
    totals = (_sum_events(cluster, gpu_spec, changes) for (cluster, gpu_spec), changes in sorted(events.items()))
    return [total for total in totals if total.stock or total.oversold]


class _Units:
    """The units in use and in stock at a time."""

    def __init__(self) -> None:
        self._used: dict[str, int] = defaultdict(int)
        self._stocked: dict[str, int] = defaultdict(int)
        self.stock = self._in_reserved_stocks = self._beyond_reserved_stocks = 0

    def apply(self, event: _Event) -> None:
        """Apply a change of a tenant's units."""
        self._count(event.tenant, -1)
        self._used[event.tenant] += event.used
        self._stocked[event.tenant] += event.stocked
        self._count(event.tenant, 1)
        self.stock += event.stocked

    def divide(self) -> tuple[int, int, int, int]:
        """Return the sold, reserved, idle and oversold units."""
        shared = self._stocked[""]
        sold_shared = min(self._beyond_reserved_stocks, shared)
        reserved = self.stock - shared - self._in_reserved_stocks
        return (
            self._in_reserved_stocks + sold_shared,
            reserved,
            shared - sold_shared,
            self._beyond_reserved_stocks - sold_shared,
        )

    def _count(self, tenant: str, sign: int) -> None:
        """Add the units of a tenant to the sums, or subtract them. No tenant has an empty name."""
        if tenant:
            in_reserved = min(self._used[tenant], self._stocked[tenant])
            self._in_reserved_stocks += sign * in_reserved
            self._beyond_reserved_stocks += sign * (self._used[tenant] - in_reserved)


def _sum_events(cluster: str, gpu_spec: str, events: list[_Event]) -> CapacityTotal:
    stock = sold = reserved = idle = oversold = 0
    for seconds, units in _list_segments(events):
        parts = units.divide()
        stock += units.stock * seconds
        sold += parts[0] * seconds
        reserved += parts[1] * seconds
        idle += parts[2] * seconds
        oversold += parts[3] * seconds
    return CapacityTotal(cluster, gpu_spec, stock=stock, sold=sold, reserved=reserved, idle=idle, oversold=oversold)


def _list_segments(events: list[_Event]) -> Iterator[tuple[int, _Units]]:
    """Yield the lengths of the times between events, in seconds, each with the units of this time."""
    units, time = _Units(), 0
    for event in sorted(events):
        if event.time > time:
            yield event.time - time, units
            time = event.time
        units.apply(event)
