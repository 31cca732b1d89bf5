"""Allocates the units of an oversold GPUSpec: published instances keep their units, and later instances wait.

A GPUSpec is oversold if instances claim more units of it than its stock has. `rules.stock` rejects a pull request that
oversells a GPUSpec. However, two pull requests can together oversell a GPUSpec although each of them is valid alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from allotment.capacity.units import UnitClaim, UnitUsage, stocks_of_spec
from allotment.declared.inventory import Catalog

PublishedClaim = Callable[[UnitClaim], UnitClaim | None]
ClusterSpecKey = tuple[str, str]  # cluster and GPUSpec


def usage_beyond_claims(claims: Iterable[UnitClaim], live: Iterable[UnitClaim]) -> list[UnitClaim]:
    """Return the units that running pods hold in addition to the claims of their instances.

    For example, pods may still run after their instance was stopped, removed or moved. `live` has all units that pods
    of instances hold. Pods may also hold claimed units of an instance that is rendered with fewer pods, for example
    while it stops. The result counts such units only in `rendered`.
    """
    units: dict[tuple[str, str, str, str], tuple[int, int]] = {claim[:4]: claim[4:] for claim in claims}
    excess = []
    for live_claim in live:
        claimed, rendered = units.get(live_claim[:4], (0, 0))
        more = live_claim._replace(
            units=max(0, live_claim.units - claimed), rendered=max(0, live_claim.rendered - rendered)
        )
        if more.rendered:
            excess.append(more)
    return excess


def group_by_cluster_and_spec(claims: Iterable[UnitClaim]) -> dict[ClusterSpecKey, list[UnitClaim]]:
    """Return the claims by cluster and GPUSpec."""
    pairs: dict[ClusterSpecKey, list[UnitClaim]] = {}
    for claim in claims:
        pairs.setdefault(claim[:2], []).append(claim)
    return pairs


def reduced_allocations(
    catalog: Catalog,
    pair: ClusterSpecKey,
    claims: Collection[UnitClaim],
    published_claim: PublishedClaim,
    live: Collection[UnitClaim] = (),
) -> dict[tuple[str, str], int]:
    """Return the allocated units of each (tenant, instance) that gets fewer units than it claims.

    `pair` is the cluster and the GPUSpec to allocate. First, each instance keeps the claimed units that it already has.
    The free units go to published instances in the order of their names. The remaining units go to new instances in the
    order of their names. An instance may get only a part of its claim.

    `published_claim` returns the claim that an instance already holds: its published claim, a claim of the units of its
    pods if the pods hold more, or None. It is called only if the GPUSpec is oversold. `live` are the units that pods
    hold beyond their claims (`usage_beyond_claims`); no other instance gets these units. The result is empty if the
    cluster is not declared.
    """
    cluster, gpu_spec = pair
    if cluster not in catalog.clusters:
        return {}
    stocks = stocks_of_spec(catalog.clusters[cluster], gpu_spec)
    if not UnitUsage(
        cluster, gpu_spec, stocks, _sum_by_tenant((claim.tenant, claim.units) for claim in (*claims, *live))
    ).excess:
        return {}
    units = _divide_stock(UnitUsage(cluster, gpu_spec, stocks, {}), claims, published_claim, live)
    return {(claim.tenant, claim.instance): more for claim, more in units.items() if more < claim.units}


def _sum_by_tenant(units: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the sum of units by tenant."""
    units_by_tenant: dict[str, int] = {}
    for tenant, more in units:
        units_by_tenant[tenant] = units_by_tenant.get(tenant, 0) + more
    return units_by_tenant


def _divide_stock(
    nobody: UnitUsage, claims: Collection[UnitClaim], published_claim: PublishedClaim, live: Collection[UnitClaim]
) -> dict[UnitClaim, int]:
    """Return the units that each claim gets. `nobody` has the stocks of the GPUSpec, but no held units."""
    published = {claim: published_claim(claim) for claim in claims}
    units = {claim: retained_units(claim, old) for claim, old in published.items()}
    tenant_units = ((claim.tenant, more) for claim, more in units.items())
    units_by_tenant = _sum_by_tenant((*tenant_units, *((claim.tenant, claim.units) for claim in live)))
    shared = max(0, nobody.stocks.shared_units - nobody._replace(held_by_tenant=units_by_tenant).total_shared_use)
    short = [claim for claim in claims if units[claim] < claim.units]
    for claim in sorted(short, key=lambda claim: (published[claim] is None, claim.tenant, claim.instance)):
        own = max(0, nobody.stocks.reserved_units(claim.tenant) - units_by_tenant[claim.tenant])
        more = min(claim.units - units[claim], own + shared)
        units[claim] += more
        units_by_tenant[claim.tenant] += more
        shared -= max(0, more - own)
    return units


def retained_units(claim: UnitClaim, old: UnitClaim | None) -> int:
    """Return how many of the units of `claim` the instance already has.

    If the previous claim `old` is for the same cluster and GPUSpec, the instance has the units of `old`; otherwise, it
    has none.
    """
    return min(claim.units, old.units) if old is not None and old[:2] == claim[:2] else 0
