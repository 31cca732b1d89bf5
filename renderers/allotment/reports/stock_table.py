"""Build a table of all stocks with their nodes, units, placeholders and cold starts."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rich.console import Group, RenderableType

from allotment.capacity.pricing import format_hourly
from allotment.capacity.units import UnitClaim, compute_stock_usage, count_placeholders
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.stock import StockSpec
from allotment.declared.values import format_size
from allotment.diff.cold_starts import ColdStartTime
from allotment.observed.cold_starts import summarize_cold_starts
from allotment.observed.resource_rows import Offers
from allotment.observed.status import ClusterStatus
from allotment.reports.cold_starts import format_cold_start
from allotment.reports.sheets import Sheet, sanitize_sentence, sanitize_value
from allotment.reports.status_tables import stale_notices


class StockRow(NamedTuple):
    """A stock of a cluster as declared, with its held units.

    `pool` is None if the NodePool can't be read. `placeholders` is the number of placeholders that should exist, and
    `ready_units` the number of running placeholders; `ready_units` is None if no cluster has reported the stock.
    `cold_start_time` is the waiting time for nodes in earlier starts with the same GPUSpec; it is None if it is unknown
    or if the nodes are static.
    """

    cluster: str
    name: str
    spec: StockSpec
    pool: NodePoolSpec | None
    held_units: int
    placeholders: int
    ready_units: int | None
    cold_start_time: ColdStartTime | None

    @property
    def free_units(self) -> int:
        """Return the number of units that no tenant holds."""
        return self.spec.count - self.held_units


def stock_rows(catalog: Catalog, claims: Iterable[UnitClaim], clusters: Iterable[ClusterStatus]) -> list[StockRow]:
    """Return all declared stocks, sorted by cluster and name.

    `clusters` are the statuses of the clusters that have reported.
    """
    claims, reported = list(claims), list(clusters)
    placeholders = count_placeholders(catalog, claims)
    ready = {(status.cluster, each.name): each.ready for status in reported for each in status.stocks}
    cold = {status.cluster: summarize_cold_starts(status.cold_starts) for status in reported}
    return [
        _stock_row(
            catalog,
            key,
            use.stock.model.spec,
            held_units=use.held_units,
            placeholders=placeholders[key],
            ready=ready.get(key),
            cold=cold,
        )
        for use in compute_stock_usage(catalog, claims)
        for key in [(use.cluster, use.stock.model.name)]
    ]


def _stock_row(
    catalog: Catalog,
    key: tuple[str, str],
    spec: StockSpec,
    *,
    held_units: int,
    placeholders: int,
    ready: int | None,
    cold: Mapping[str, Mapping[str, ColdStartTime]],
) -> StockRow:
    pool = catalog.clusters[key[0]].of_kind(NodePool).get(spec.node_pool)
    comes = pool is not None and pool.model.spec.karpenter is not None
    time = cold.get(key[0], {}).get(spec.gpu_spec) if comes else None
    return StockRow(
        *key,
        spec=spec,
        pool=pool.model.spec if pool else None,
        held_units=held_units,
        placeholders=placeholders,
        ready_units=ready,
        cold_start_time=time,
    )


def stocks_table(
    rows: Iterable[StockRow], clusters: Iterable[ClusterStatus], now: datetime.datetime, offers: Offers | None = None
) -> RenderableType:
    """Return a table with a row for each stock, after notices on clusters with an outdated status.

    With `offers`, the table also has the GPU model, the memory of each GPU or slice, and the price of a unit per hour.
    """
    heads = "STOCK", "CLUSTER", "GPU SPEC", "POOL", "NODES", "UNITS", "HELD", "FREE", "WARM", "READY", "TENANT"
    offer_heads = ("MODEL", "MEMORY", "PRICE/HOUR") if offers is not None else ()
    sheet = Sheet(*heads, *offer_heads, "COLD START", long=("COLD START",))
    for row in rows:
        units = (
            row.spec.count,
            row.held_units,
            row.free_units,
            row.placeholders,
            "-" if row.ready_units is None else row.ready_units,
        )
        values = row.name, row.cluster, row.spec.gpu_spec, row.spec.node_pool, _nodes_text(row.pool), *units
        comes = row.pool is not None and row.pool.karpenter is not None
        sheet.add_row(
            *map(sanitize_value, values),
            sanitize_value(row.spec.tenant or "-"),
            *(map(sanitize_value, _offer_values(row.spec.gpu_spec, offers)) if offers is not None else ()),
            sanitize_sentence(format_cold_start(row.cold_start_time) if comes else "-"),
        )
    return Group(*stale_notices(clusters, now), sheet)


def _offer_values(gpu_spec: str, offers: Offers) -> tuple[str, str, str]:
    """Return the model, the memory and the price of a GPUSpec; a dash for each unknown value."""
    if (offer := offers.gpu_specs.get(gpu_spec)) is None:
        return "-", "-", "-"
    return offer.model, format_size(offer.memory), "-" if offer.price is None else format_hourly(offer.price)


def _nodes_text(pool: NodePoolSpec | None) -> str:
    if pool is None:
        return "-"
    return f"{pool.node_limit}" if pool.static is not None else f"0 to {pool.node_limit}"
