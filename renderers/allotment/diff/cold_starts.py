"""Find the cold starts of a change: units that must wait for a node when they start.

The nodes of a static pool always exist. In a Karpenter pool, a free unit has a node only if a placeholder (a pause pod)
keeps the unit warm, or if a node that other units use has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from allotment.capacity.units import StockUsage, UnitClaim, compute_stock_usage, count_placeholders, units_per_node
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.output_part import Part

_ClaimsSide = tuple[Catalog, Iterable[UnitClaim]]
_StockGroup = tuple[
    str, str, str
]  # cluster, GPUSpec, and the tenant for which the stocks are reserved (an empty text for shared stocks)


class ColdStartTime(Part, frozen=True):
    """The time that instances waited for a node because no unit was warm: the median and the maximum.

    The two times are computed from the last observed starts, at most 20.
    """

    start_count: int = msgspec.field(name="starts")
    median_seconds: int
    longest_seconds: int


class ColdStart(Part, frozen=True):
    """The units of a GPUSpec that a change starts in a cluster, if some of them must wait for a node from Karpenter.

    `units` is the number of started units. For `warm` of these units, a placeholder or a static node is ready. The
    other units wait for a new node. If `alone` is false, the other units may instead fit on a node that instances
    already use. `coldStart` is the time that earlier starts waited; null if it is unknown.
    """

    cluster: str
    gpu_spec: str
    instances: tuple[str, ...]
    unit_count: int = msgspec.field(name="units")
    warm_units: int = msgspec.field(name="warm")
    is_one_per_node: bool = msgspec.field(name="alone")
    cold_start_time: ColdStartTime | None = msgspec.field(name="coldStart")


def find_cold_starts(before: _ClaimsSide, after: _ClaimsSide) -> Iterator[ColdStart]:
    """Yield a ColdStart for each GPUSpec in a cluster if a change starts more of its units than were warm before."""
    (catalog, claims), (offers_after, claims_after) = ((catalog, list(claims)) for catalog, claims in (before, after))
    takes = _started_units((catalog, claims), (offers_after, claims_after))
    starting = _starting_instances(claims, claims_after)
    for cluster, spec, owner in sorted(takes):
        units_by_tenant = starting.get((cluster, spec), {})
        spilling = [
            tenant
            for tenant, units in units_by_tenant.items()
            if sum(units.values()) > takes.get((cluster, spec, tenant), _NO_STARTED_UNITS).units
        ]
        if owner in spilling and (cluster, spec, "") in takes:
            # The tenant also takes units from the shared stocks. Its instances are reported with the shared stocks.
            continue
        tenants = [owner] if owner else sorted(spilling)
        own = [takes.get((cluster, spec, tenant), _NO_STARTED_UNITS) for tenant in ([] if owner else tenants)]
        all_of = [takes[cluster, spec, owner], *own]
        started = sum(
            sum(units_by_tenant.get(tenant, {}).values()) for tenant in tenants
        )  # if a stock is removed, its instances move to other stocks and do not start
        units, warm = min(started, sum(use.units for use in all_of)), sum(use.warm_units for use in all_of)
        if warm < units:
            who = tuple(f"{tenant}/{name}" for tenant in tenants for name in units_by_tenant.get(tenant, ()))
            yield ColdStart(
                cluster, spec, who, units, warm, all(use.is_one_per_node for use in all_of), cold_start_time=None
            )


class _StartedUnits(NamedTuple):
    """The units that a change additionally takes from a group of stocks.

    `warm_units` of these units are warm. `is_one_per_node` says that each of the other units needs a whole node.
    """

    units: int
    warm_units: int
    is_one_per_node: bool


_NO_STARTED_UNITS = _StartedUnits(0, 0, True)


def _started_units(before: _ClaimsSide, after: _ClaimsSide) -> dict[_StockGroup, _StartedUnits]:
    old, warm = _rendered_stock_usage(*before), count_placeholders(*before)
    catalog = after[0]
    specs = catalog.platform.of_kind(GPUSpec)
    totals: dict[_StockGroup, _StartedUnits] = {}
    for key, use in _rendered_stock_usage(*after).items():
        stock = use.stock.model.spec
        pool = catalog.clusters[use.cluster].of_kind(NodePool).get(stock.node_pool)
        units = use.held_units - (old[key].held_units if key in old else 0)
        if units <= 0 or pool is None or stock.gpu_spec not in specs:
            continue
        comes = pool.model.spec.karpenter is not None
        ready = min(units, warm.get(key, 0)) if comes else units
        alone = not comes or units_per_node(specs[stock.gpu_spec].model.spec, pool.model.spec) <= 1
        group = (use.cluster, stock.gpu_spec, stock.tenant or "")
        so_far = totals.get(group, _NO_STARTED_UNITS)
        totals[group] = _StartedUnits(so_far.units + units, so_far.warm_units + ready, so_far.is_one_per_node and alone)
    return totals


def _rendered_stock_usage(catalog: Catalog, claims: Iterable[UnitClaim]) -> dict[tuple[str, str], StockUsage]:
    """Return how many units of each stock are held by pods that may run."""
    uses = compute_stock_usage(catalog, [claim._replace(units=claim.rendered) for claim in claims])
    return {(use.cluster, use.stock.model.name): use for use in uses}


def _starting_instances(
    before: Iterable[UnitClaim], after: Iterable[UnitClaim]
) -> dict[tuple[str, str], dict[str, dict[str, int]]]:
    """Return the additional units of each instance, by cluster and GPUSpec, then by tenant and instance."""
    old = {(claim.cluster, claim.gpu_spec, claim.tenant, claim.instance): claim.rendered for claim in before}
    started_units: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for claim in sorted(after):
        units = claim.rendered - old.get((claim.cluster, claim.gpu_spec, claim.tenant, claim.instance), 0)
        if units > 0:
            started_units.setdefault((claim.cluster, claim.gpu_spec), {}).setdefault(claim.tenant, {})[
                claim.instance
            ] = units
    return started_units
