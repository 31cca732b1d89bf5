"""Find the starting units that have no warm unit and must wait for a node.

Nodes of a static pool always exist. On a Karpenter pool, a free unit has a node only if a placeholder keeps it there,
or if a node that others use has room.
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
]  # cluster, GPUSpec, and the tenant for which its stocks are reserved, empty if they are shared


class ColdStartTime(Part, frozen=True):
    """How long instances that found no free unit waited until a node had room for them: of the last starts that were seen, 20 at
    most, the median and the longest."""

    start_count: int = msgspec.field(name="starts")
    median_seconds: int
    longest_seconds: int


class ColdStart(Part, frozen=True):
    """Units of a GPUSpec that instances take more of a cluster's stocks on nodes that Karpenter buys: so many start, and `warm` of
    them are kept ready by placeholders or lie on static nodes. For the rest a node comes first; where it isn't `alone`, a node that others use may
    have room. `coldStart` is how long such nodes took, null where that isn't known here."""

    cluster: str
    gpu_spec: str
    instances: tuple[str, ...]
    unit_count: int = msgspec.field(name="units")
    warm_units: int = msgspec.field(name="warm")
    is_one_per_node: bool = msgspec.field(name="alone")
    cold_start_time: ColdStartTime | None = msgspec.field(name="coldStart")


def find_cold_starts(before: _ClaimsSide, after: _ClaimsSide) -> Iterator[ColdStart]:
    """Yield the cases in which a change takes more units of Karpenter pools than the previous placeholders keep warm."""
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
            continue  # reported with the shared stocks, from which the tenant takes units too
        tenants = [owner] if owner else sorted(spilling)
        own = [takes.get((cluster, spec, tenant), _NO_STARTED_UNITS) for tenant in ([] if owner else tenants)]
        all_of = [takes[cluster, spec, owner], *own]
        started = sum(
            sum(units_by_tenant.get(tenant, {}).values()) for tenant in tenants
        )  # removing a stock moves its instances to other stocks
        units, warm = min(started, sum(use.units for use in all_of)), sum(use.warm_units for use in all_of)
        if warm < units:
            who = tuple(f"{tenant}/{name}" for tenant in tenants for name in units_by_tenant.get(tenant, ()))
            yield ColdStart(
                cluster, spec, who, units, warm, all(use.is_one_per_node for use in all_of), cold_start_time=None
            )


class _StartedUnits(NamedTuple):
    """Additional units that are taken from some stocks, how many are warm, and whether each of the others needs a whole
    node.
    """

    units: int
    warm_units: int
    is_one_per_node: bool


_NO_STARTED_UNITS = _StartedUnits(0, 0, True)


def _started_units(before: _ClaimsSide, after: _ClaimsSide) -> dict[_StockGroup, _StartedUnits]:
    was, warm = _rendered_stock_usage(*before), count_placeholders(*before)
    catalog = after[0]
    specs = catalog.platform.of_kind(GPUSpec)
    totals: dict[_StockGroup, _StartedUnits] = {}
    for key, use in _rendered_stock_usage(*after).items():
        stock = use.stock.model.spec
        pool = catalog.clusters[use.cluster].of_kind(NodePool).get(stock.node_pool)
        units = use.held_units - (was[key].held_units if key in was else 0)
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
    """Return the number of units of each stock that is held by instances that may run."""
    uses = compute_stock_usage(catalog, [claim._replace(units=claim.rendered) for claim in claims])
    return {(use.cluster, use.stock.model.name): use for use in uses}


def _starting_instances(
    before: Iterable[UnitClaim], after: Iterable[UnitClaim]
) -> dict[tuple[str, str], dict[str, dict[str, int]]]:
    """Return the additional units of each instance, by cluster and GPUSpec, then by tenant and instance."""
    was = {(claim.cluster, claim.gpu_spec, claim.tenant, claim.instance): claim.rendered for claim in before}
    started_units: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for claim in sorted(after):
        units = claim.rendered - was.get((claim.cluster, claim.gpu_spec, claim.tenant, claim.instance), 0)
        if units > 0:
            started_units.setdefault((claim.cluster, claim.gpu_spec), {}).setdefault(claim.tenant, {})[
                claim.instance
            ] = units
    return started_units
