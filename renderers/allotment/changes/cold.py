"""Which starts of a change find no unit kept warm, so that a node comes first.

Nodes of a static pool are always there. On a Karpenter pool a free unit is on a node only where a placeholder keeps it there,
or where a node that others use has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.accounts.capacity import Claim, StockUse, placeholders, stock_uses, units_per_node
from allotment.declared.inventory import Offers
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool

_Side = tuple[Offers, Iterable[Claim]]
_Group = tuple[str, str, str]  # cluster, GPUSpec, and the tenant that has its stocks alone, empty where they are shared


class ColdTime(NamedTuple):
    """How long nodes took to come, in seconds: of so many starts the median, and the longest."""

    starts: int
    median: int
    longest: int


class ColdUnits(NamedTuple):
    """Units of a GPUSpec that instances (`<tenant>/<name>`) take more of a cluster's stocks: so many, and `warm` of them are kept
    ready by placeholders or lie on static nodes. `alone` says that a node has no more than one of the rest. `time` is how
    long such nodes took, if that is known."""

    cluster: str
    gpu_spec: str
    instances: tuple[str, ...]
    units: int
    warm: int
    alone: bool
    time: ColdTime | None = None


def cold_units(before: _Side, after: _Side) -> Iterator[ColdUnits]:
    """Yield where a change takes more units of Karpenter's pools than the placeholders of before keep warm."""
    (offers, claims), (offers_after, claims_after) = ((offers, list(claims)) for offers, claims in (before, after))
    takes = _takes((offers, claims), (offers_after, claims_after))
    starting = _starting(claims, claims_after)
    for cluster, spec, owner in sorted(takes):
        units_by_tenant = starting.get((cluster, spec), {})
        spilling = [
            tenant
            for tenant, units in units_by_tenant.items()
            if sum(units.values()) > takes.get((cluster, spec, tenant), _NOTHING).units
        ]
        if owner in spilling and (cluster, spec, "") in takes:
            continue  # told with the shared ones, which it takes too
        tenants = [owner] if owner else sorted(spilling)
        own = [takes.get((cluster, spec, tenant), _NOTHING) for tenant in ([] if owner else tenants)]
        all_of = [takes[cluster, spec, owner], *own]
        started = sum(
            sum(units_by_tenant.get(tenant, {}).values()) for tenant in tenants
        )  # a stock that goes moves what runs to others
        units, warm = min(started, sum(use.units for use in all_of)), sum(use.warm for use in all_of)
        if warm < units:
            who = tuple(f"{tenant}/{name}" for tenant in tenants for name in units_by_tenant.get(tenant, ()))
            yield ColdUnits(cluster, spec, who, units, warm, all(use.alone for use in all_of))


class _Taken(NamedTuple):
    """Units that are taken more of some stocks, how many of them are ready, and whether none of the rest shares a node."""

    units: int
    warm: int
    alone: bool


_NOTHING = _Taken(0, 0, True)


def _takes(before: _Side, after: _Side) -> dict[_Group, _Taken]:
    was, warm = _held(*before), placeholders(*before)
    offers = after[0]
    specs = offers.platform.of(GPUSpec)
    totals: dict[_Group, _Taken] = {}
    for key, use in _held(*after).items():
        stock = use.stock.model.spec
        pool = offers.clusters[use.cluster].of(NodePool).get(stock.node_pool)
        units = use.held - (was[key].held if key in was else 0)
        if units <= 0 or pool is None or stock.gpu_spec not in specs:
            continue
        comes = pool.model.spec.karpenter is not None
        ready = min(units, warm.get(key, 0)) if comes else units
        alone = not comes or units_per_node(specs[stock.gpu_spec].model.spec, pool.model.spec) <= 1
        group = (use.cluster, stock.gpu_spec, stock.tenant or "")
        so_far = totals.get(group, _NOTHING)
        totals[group] = _Taken(so_far.units + units, so_far.warm + ready, so_far.alone and alone)
    return totals


def _held(offers: Offers, claims: Iterable[Claim]) -> dict[tuple[str, str], StockUse]:
    """Return how many units of each stock instances that may run hold."""
    uses = stock_uses(offers, [claim._replace(units=claim.rendered) for claim in claims])
    return {(use.cluster, use.stock.model.name): use for use in uses}


def _starting(before: Iterable[Claim], after: Iterable[Claim]) -> dict[tuple[str, str], dict[str, dict[str, int]]]:
    """Return the instances that take more units, with how many, by cluster and GPUSpec and by tenant."""
    was = {(claim.cluster, claim.gpu_spec, claim.tenant, claim.instance): claim.rendered for claim in before}
    started_units: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for claim in sorted(after):
        units = claim.rendered - was.get((claim.cluster, claim.gpu_spec, claim.tenant, claim.instance), 0)
        if units > 0:
            started_units.setdefault((claim.cluster, claim.gpu_spec), {}).setdefault(claim.tenant, {})[
                claim.instance
            ] = units
    return started_units
