"""Who gets units when merges together oversold: who was published keeps what it holds, who came later waits.

Review prevents it (`rules.stock`), but two pull requests that were each fine can be merged together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.accounts.capacity import Claim, Holdings, holdings
from allotment.declared.inventory import Offers

Before = Callable[[Claim], Claim | None]


def grants(offers: Offers, claims: Iterable[Claim], before: Before) -> dict[tuple[str, str], int]:
    """Return the units of each (tenant, instance) that gets fewer than it claims.

    `before` has what an instance was last published with, None for one that wasn't; it is asked only where a spec is
    oversold. Of newcomers those that waited already come first, then the order of names; a smaller one may pass a larger.
    """
    all_claims = list(claims)
    fewer: dict[tuple[str, str], int] = {}
    for one in holdings(offers, all_claims):
        if not one.excess:
            continue
        there = [claim for claim in all_claims if (claim.cluster, claim.gpu_spec) == (one.cluster, one.gpu_spec)]
        for claim, units in _shared_out(one, there, before).items():
            if units < claim.units:
                fewer[(claim.tenant, claim.instance)] = units
    return fewer


def _shared_out(one: Holdings, claims: list[Claim], before: Before) -> dict[Claim, int]:
    published = {claim: before(claim) for claim in claims}
    units: dict[Claim, int] = {}
    held: dict[str, int] = {}
    for claim, old in published.items():
        same = old is not None and (old.cluster, old.gpu_spec) == (claim.cluster, claim.gpu_spec)
        units[claim] = min(claim.units, old.units) if old is not None and same else 0
        held[claim.tenant] = held.get(claim.tenant, 0) + units[claim]
    for claim in sorted(claims, key=lambda claim: (published[claim] is None, claim.tenant, claim.instance)):
        now = one._replace(held=held)
        room = max(0, one.stocks.units(claim.tenant) - held[claim.tenant])
        room += max(0, one.stocks.shared_units - now.shared_held)
        more = min(claim.units - units[claim], room)
        units[claim] += more
        held[claim.tenant] += more
    return units
