"""The JSON output of `allot stock list`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from allotment.declared.kinds.node_pool import NodePoolSpec
from allotment.diff.cold_starts import ColdStartTime
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of
from allotment.reports.outputs.status import DeclaredOutput
from allotment.reports.stock_table import StockRow


class NodesOutput(Part, frozen=True):
    """The nodes of a pool, which all stocks of the pool share.

    `static` is the number of nodes that always exist. `karpenterMost` is the most nodes that Karpenter buys on demand.
    One of the two is null.
    """

    static: int | None
    karpenter_most: int | None


class StockRowOutput(Part, frozen=True):
    """A declared stock: the units that tenants may hold (`count`), the held units, and the free units.

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
    held_units: int = msgspec.field(name="held")
    free_units: int = msgspec.field(name="free")
    warm: int | None
    placeholders: int
    ready_units: int | None = msgspec.field(name="ready")
    tenant: str | None
    cold_start_time: ColdStartTime | None = msgspec.field(name="coldStart")


class ReportedOutput(Part, frozen=True):
    """A cluster, and the time of its last report; the time is null if there is no report.

    `stale` is true if the report is too old. `trouble` describes a fault of the cluster's status branch.
    """

    cluster: str
    observed_at: str | None
    stale: bool
    trouble: str


class StockOutput(Output, frozen=True, kw_only=True, tag="StockOutput"):
    """All stocks, sorted by cluster and name."""

    declared: DeclaredOutput
    clusters: tuple[ReportedOutput, ...]
    stocks: tuple[StockRowOutput, ...]


def stock_rows_output(rows: Iterable[StockRow]) -> tuple[StockRowOutput, ...]:
    """Return the output of stocks."""
    return tuple(
        output_of(
            StockRowOutput,
            row,
            gpu_spec=row.spec.gpu_spec,
            node_pool=row.spec.node_pool,
            nodes=_nodes_output(row.pool) if row.pool else None,
            count=row.spec.count,
            warm=row.spec.warm,
            tenant=row.spec.tenant,
        )
        for row in rows
    )


def _nodes_output(pool: NodePoolSpec) -> NodesOutput:
    is_static = pool.static is not None
    return NodesOutput(pool.node_limit if is_static else None, None if is_static else pool.node_limit)
