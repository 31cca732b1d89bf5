"""Every stock with its nodes, units and placeholders, and how long nodes take to come, as rows of a table."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rich.console import Group, RenderableType

from allotment.accounts.capacity import Claim, placeholders, stock_uses
from allotment.changes.cold import ColdTime
from allotment.declared.inventory import Offers
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.stock import StockSpec
from allotment.observed.cold_starts import cold_times
from allotment.observed.status import ClusterStatus
from allotment.reports.cold_starts import cold_words
from allotment.reports.sheets import Sheet, plain, words
from allotment.reports.tables import notices


class StockRow(NamedTuple):
    """A stock of a cluster as it is declared, with the units that are held.

    `pool` is None where its NodePool can't be read. `placeholders` are wanted; `ready` of them run, None where nothing has
    reported the stock. `cold` is how long nodes took to come for its GPUSpec, None where that isn't known.
    """

    cluster: str
    name: str
    spec: StockSpec
    pool: NodePoolSpec | None
    held: int
    placeholders: int
    ready: int | None
    cold: ColdTime | None

    @property
    def free(self) -> int:
        """The units that nobody holds."""
        return self.spec.count - self.held


def stock_rows(offers: Offers, claims: Iterable[Claim], clusters: Iterable[ClusterStatus]) -> list[StockRow]:
    """Return all declared stocks, by cluster and name; `clusters` are those that are reported."""
    claims, reported = list(claims), list(clusters)
    wanted = placeholders(offers, claims)
    ready = {(status.cluster, each.name): each.ready for status in reported for each in status.stocks}
    cold = {status.cluster: cold_times(status.cold_starts) for status in reported}
    return [
        _row(offers, key, use.stock.model.spec, held=use.held, wanted=wanted[key], ready=ready.get(key), cold=cold)
        for use in stock_uses(offers, claims)
        for key in [(use.cluster, use.stock.model.name)]
    ]


def _row(
    offers: Offers,
    key: tuple[str, str],
    spec: StockSpec,
    *,
    held: int,
    wanted: int,
    ready: int | None,
    cold: Mapping[str, Mapping[str, ColdTime]],
) -> StockRow:
    pool = offers.clusters[key[0]].of(NodePool).get(spec.node_pool)
    comes = pool is not None and pool.model.spec.karpenter is not None
    time = cold.get(key[0], {}).get(spec.gpu_spec) if comes else None
    return StockRow(
        *key,
        spec=spec,
        pool=pool.model.spec if pool else None,
        held=held,
        placeholders=wanted,
        ready=ready,
        cold=time,
    )


def stocks_table(rows: Iterable[StockRow], clusters: Iterable[ClusterStatus], now: datetime.datetime) -> RenderableType:
    """Return a row a stock, and first which clusters' words may be old."""
    heads = "STOCK", "CLUSTER", "GPU SPEC", "POOL", "NODES", "UNITS", "HELD", "FREE", "WARM", "READY", "TENANT"
    sheet = Sheet(*heads, "COLD START", long=("COLD START",))
    for row in rows:
        units = row.spec.count, row.held, row.free, row.placeholders, "-" if row.ready is None else row.ready
        values = row.name, row.cluster, row.spec.gpu_spec, row.spec.node_pool, _nodes(row.pool), *units
        comes = row.pool is not None and row.pool.karpenter is not None
        sheet.add(*map(plain, values), plain(row.spec.tenant or "-"), words(cold_words(row.cold) if comes else "-"))
    return Group(*notices(clusters, now), sheet)


def _nodes(pool: NodePoolSpec | None) -> str:
    if pool is None:
        return "-"
    return f"{pool.most_nodes}" if pool.static is not None else f"0 to {pool.most_nodes}"
