"""Who gets units when merges together oversold: who was published keeps what it holds, who came later waits.

Review prevents it (`rules.stock`), but two pull requests that were each fine can be merged together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from allotment.accounts.capacity import Claim, Holdings, stocks_of
from allotment.declared.inventory import Offers

Before = Callable[[Claim], Claim | None]
Pair = tuple[str, str]  # cluster and GPUSpec


def beyond(claims: Iterable[Claim], live: Iterable[Claim]) -> list[Claim]:
    """Return what pods hold beyond what is claimed for them: of an instance that was stopped, removed or moved, and
    still runs.

    `live` are the units that pods of instances hold.
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


def by_pair(claims: Iterable[Claim]) -> dict[Pair, list[Claim]]:
    """Return claims by cluster and GPUSpec."""
    pairs: dict[Pair, list[Claim]] = {}
    for claim in claims:
        pairs.setdefault(claim[:2], []).append(claim)
    return pairs


def grants(
    offers: Offers, pair: Pair, claims: Collection[Claim], published_claim: Before, live: Collection[Claim] = ()
) -> dict[tuple[str, str], int]:
    """Return the units of each (tenant, instance) that gets fewer than it claims of a GPUSpec in a cluster; nothing of a
    cluster that isn't declared.

    `published_claim` returns the last published claim of an instance, or the units of its pods, or None; it is called only if the
    GPUSpec is oversold. `live` are the units that pods hold beyond their claims (`beyond`): nobody else gets those. Published
    instances come first, then the order of names; a smaller claim may pass a larger claim.
    """
    cluster, gpu_spec = pair
    if cluster not in offers.clusters:
        return {}
    stocks = stocks_of(offers.clusters[cluster], gpu_spec)
    if not Holdings(cluster, gpu_spec, stocks, _held((claim.tenant, claim.units) for claim in (*claims, *live))).excess:
        return {}
    units = _shared_out(Holdings(cluster, gpu_spec, stocks, {}), claims, published_claim, live)
    return {(claim.tenant, claim.instance): more for claim, more in units.items() if more < claim.units}


def _held(units: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the sum of units by tenant."""
    held: dict[str, int] = {}
    for tenant, more in units:
        held[tenant] = held.get(tenant, 0) + more
    return held


def _shared_out(
    nobody: Holdings, claims: Collection[Claim], published_claim: Before, live: Collection[Claim]
) -> dict[Claim, int]:
    """Return the units of each claim. `nobody` has the stocks, and no holder."""
    published = {claim: published_claim(claim) for claim in claims}
    units = {claim: kept_units(claim, old) for claim, old in published.items()}
    tenant_units = ((claim.tenant, more) for claim, more in units.items())
    held = _held((*tenant_units, *((claim.tenant, claim.units) for claim in live)))
    shared = max(0, nobody.stocks.shared_units - nobody._replace(held=held).shared_held)
    short = [claim for claim in claims if units[claim] < claim.units]
    for claim in sorted(short, key=lambda claim: (published[claim] is None, claim.tenant, claim.instance)):
        own = max(0, nobody.stocks.units(claim.tenant) - held[claim.tenant])
        more = min(claim.units - units[claim], own + shared)
        units[claim] += more
        held[claim.tenant] += more
        shared -= max(0, more - own)
    return units


def kept_units(claim: Claim, old: Claim | None) -> int:
    """Return how many units of its GPUSpec an instance had, at most those that it claims."""
    return min(claim.units, old.units) if old is not None and old[:2] == claim[:2] else 0
