"""Build a table of all stocks with their nodes, units, placeholders and cold starts."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from allotment.capacity.offers import Offers
from allotment.capacity.pricing import format_hourly
from allotment.capacity.units import UnitClaim, compute_stock_usage, count_placeholders
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.stock import StockSpec
from allotment.declared.values import format_size
from allotment.diff.cold_starts import ColdStartTime
from allotment.observed.cold_starts import summarize_cold_starts
from allotment.observed.status import ClusterStatus
from allotment.output_part import Part
from allotment.problems import escape_unprintable
from allotment.reports.cold_starts import format_cold_start
from allotment.reports.sheets import Sheet, sanitize_sentence, sanitize_value
from allotment.reports.status_tables import stale_notices


class NodesOutput(Part, frozen=True):
    """The nodes of a pool, which all stocks of the pool share.

    `static` is the number of nodes that always exist. `karpenterMost` is the most nodes that Karpenter buys on demand.
    One of the two is null.
    """

    static: int | None
    karpenter_most: int | None


class StockRowOutput(Part, frozen=True, kw_only=True):
    """A declared stock: the units that tenants may hold (`count`), the held units, and the free units.

    `cordoned` is the number of declared units that are out of service today, because of cordons. `count` does not include them.

    `warm` is the most free units that placeholders keep ready; null means all free units. `placeholders` is the number
    of placeholders that should exist, and `ready` the number of running placeholders; `ready` is null if the cluster
    has not reported the stock. `nodes` is null if the NodePool can't be read. `coldStart` is null if the nodes are
    static, or if no cold start was observed. If `tenant` is set, the units are reserved for that tenant.
    """

    cluster: str
    name: str
    gpu_spec: str
    node_pool: str
    nodes: NodesOutput | None
    count: int
    cordoned_units: int = msgspec.field(name="cordoned")
    held_units: int = msgspec.field(name="held")
    free_units: int = msgspec.field(name="free")
    warm: int | None
    placeholders: int
    ready_units: int | None = msgspec.field(name="ready")
    tenant: str | None
    cold_start_time: ColdStartTime | None = msgspec.field(name="coldStart")


def stock_rows(
    catalog: Catalog, claims: Iterable[UnitClaim], clusters: Iterable[ClusterStatus]
) -> list[StockRowOutput]:
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
) -> StockRowOutput:
    pool = catalog.clusters[key[0]].of_kind(NodePool).get(spec.node_pool)
    nodes = _count_nodes(pool.model.spec) if pool is not None else None
    return StockRowOutput(
        cluster=key[0],
        name=key[1],
        gpu_spec=spec.gpu_spec,
        node_pool=spec.node_pool,
        nodes=nodes,
        count=spec.count,
        cordoned_units=spec.cordoned_units,
        held_units=held_units,
        free_units=spec.count - held_units,
        warm=spec.warm,
        placeholders=placeholders,
        ready_units=ready,
        tenant=spec.tenant,
        cold_start_time=cold.get(key[0], {}).get(spec.gpu_spec) if _is_bought(nodes) else None,
    )


def _count_nodes(pool: NodePoolSpec) -> NodesOutput:
    is_static = pool.static is not None
    return NodesOutput(pool.node_limit if is_static else None, None if is_static else pool.node_limit)


def stocks_table(
    rows: Iterable[StockRowOutput],
    clusters: Iterable[ClusterStatus],
    now: datetime.datetime,
    offers: Offers | None = None,
) -> RenderableType:
    """Return a table with a row for each stock, after notices on clusters with an outdated status.

    A note names each stock with units that are out of service. With `offers`, the table also has the GPU model, the memory of each GPU or slice, and the price of a unit per hour.
    """
    heads = "STOCK", "CLUSTER", "GPU SPEC", "POOL", "NODES", "UNITS", "HELD", "FREE", "WARM", "READY", "TENANT"
    offer_heads = ("MODEL", "MEMORY", "PRICE/HOUR") if offers is not None else ()
    sheet = Sheet(*heads, *offer_heads, "COLD START", long=("COLD START",))
    rows = list(rows)
    for row in rows:
        units = (
            row.count,
            row.held_units,
            row.free_units,
            row.placeholders,
            "-" if row.ready_units is None else row.ready_units,
        )
        values = row.name, row.cluster, row.gpu_spec, row.node_pool, _nodes_text(row.nodes), *units
        sheet.add_row(
            *map(sanitize_value, values),
            sanitize_value(row.tenant or "-"),
            *(map(sanitize_value, _offer_values(row.gpu_spec, offers)) if offers is not None else ()),
            sanitize_sentence(format_cold_start(row.cold_start_time) if _is_bought(row.nodes) else "-"),
        )
    return Group(*stale_notices(clusters, now), sheet, *_cordon_notes(rows))


def _cordon_notes(rows: Iterable[StockRowOutput]) -> Iterator[Text]:
    for row in rows:
        if row.cordoned_units:
            name = escape_unprintable(f"{row.cluster}/{row.name}")
            units = f"{row.cordoned_units} of {row.count + row.cordoned_units} units are out of service today"
            yield Text(f"{name}: {units}, on nodes with a cordon")


def _offer_values(gpu_spec: str, offers: Offers) -> tuple[str, str, str]:
    """Return the model, the memory and the price of a GPUSpec; a dash for each unknown value."""
    if (offer := offers.gpu_specs.get(gpu_spec)) is None:
        return "-", "-", "-"
    return offer.model, format_size(offer.memory), "-" if offer.price is None else format_hourly(offer.price)


def _is_bought(nodes: NodesOutput | None) -> bool:
    """Return whether Karpenter buys the nodes on demand."""
    return nodes is not None and nodes.karpenter_most is not None


def _nodes_text(nodes: NodesOutput | None) -> str:
    if nodes is None:
        return "-"
    return f"{nodes.static}" if nodes.static is not None else f"0 to {nodes.karpenter_most}"
