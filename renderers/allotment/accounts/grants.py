"""Who gets units when merges together oversold: who was published keeps what it holds, who came later waits.

Review prevents it (`rules.stock`), but two pull requests that were each fine can be merged together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from allotment.accounts.capacity import Claim, Holdings, holdings
from allotment.declared.inventory import Offers

Before = Callable[[Claim], Claim | None]


def beyond(claims: Iterable[Claim], live: Iterable[Claim]) -> list[Claim]:
    """Return what pods hold beyond what is claimed for them: of an instance that was stopped, removed or moved, and
    still runs.

    `live` are the units that pods of instances hold.
    """
    units: dict[tuple[str, str, str, str], tuple[int, int]] = {claim[:4]: claim[4:] for claim in claims}
    found = []
    for one in live:
        claimed, rendered = units.get(one[:4], (0, 0))
        more = one._replace(units=max(0, one.units - claimed), rendered=max(0, one.rendered - rendered))
        if more.rendered:
            found.append(more)
    return found


def grants(
    offers: Offers, claims: Iterable[Claim], before: Before, live: Iterable[Claim] = ()
) -> dict[tuple[str, str], int]:
    """Return the units of each (tenant, instance) that gets fewer than it claims.

    `before` has what an instance was last published with, or its pods hold, None for one of which neither is so; it
    is asked only where a spec is oversold. `live` is what pods hold beyond what is claimed for them (`beyond`):
    nobody else gets that. Of newcomers those that waited already come first, then the order of names; a smaller one
    may pass a larger.
    """
    all_claims, kept = list(claims), list(live)
    fewer: dict[tuple[str, str], int] = {}
    for one in holdings(offers, [*all_claims, *kept]):
        if not one.excess:
            continue
        here = one.cluster, one.gpu_spec
        there = [claim for claim in all_claims if claim[:2] == here]
        for claim, units in _shared_out(one, there, before, [claim for claim in kept if claim[:2] == here]).items():
            if units < claim.units:
                fewer[(claim.tenant, claim.instance)] = units
    return fewer


def _shared_out(one: Holdings, claims: list[Claim], before: Before, live: list[Claim]) -> dict[Claim, int]:
    published = {claim: before(claim) for claim in claims}
    units: dict[Claim, int] = {}
    held: dict[str, int] = {}
    for claim in live:
        held[claim.tenant] = held.get(claim.tenant, 0) + claim.units
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
