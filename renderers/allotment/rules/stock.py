"""Stock: instances that run never hold more units than there are.

For each cluster and spec, what tenants hold beyond their own stocks is at most what the shared stocks have.
An instance that is Running holds its units, also while it waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.accounts.capacity import Claim, Holdings, holdings
from allotment.declared.inventory import Offers
from allotment.declared.layout import Scope, path_of
from allotment.problems import Finding
from allotment.rules.tally import Tally

RULE = "stock"
NAMED_HOLDERS = 5


def check(offers: Offers, tally: Tally) -> Iterator[Finding]:
    """Check every cluster and spec. The finding is at the first instance too many, those the base knew counted first."""
    order = list(tally.newest_last)
    for one in holdings(offers, tally.claims):
        unread = any(
            kind in ("Stock", "GPUSpec") for kind, _ in offers.clusters[one.cluster].broken | offers.platform.broken
        )
        if one.shared_held > one.stocks.shared_units and one.stocks.all and not unread:
            claims = [claim for claim in order if (claim.cluster, claim.gpu_spec) == (one.cluster, one.gpu_spec)]
            yield _oversold(one, claims)


def _oversold(one: Holdings, claims: list[Claim]) -> Finding:
    over = _first_too_many(one, claims)
    reserved = {owner: one.stocks.units(owner) for owner in one.stocks.reserved}
    stock = f"{one.stocks.shared_units} shared" + "".join(
        f", {units} held for {owner}" for owner, units in sorted(reserved.items())
    )
    total = sum(claim.units for claim in claims)
    largest = sorted(claims, key=lambda claim: (-claim.units, claim.tenant, claim.instance))
    holders = ", ".join(f"{claim.tenant}/{claim.instance} {claim.units}" for claim in largest[:NAMED_HOLDERS])
    more = f" and {len(largest) - NAMED_HOLDERS} more" if len(largest) > NAMED_HOLDERS else ""
    excess = one.shared_held - one.stocks.shared_units
    message = (
        f"{total} units of {one.gpu_spec} would run in {one.cluster}, {excess} more than its stock ({stock});"
        f" held by {holders}{more}: stop one, or choose another GPUSpec or cluster"
    )
    related = (
        *(path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance) for claim in claims),
        *(stock.path for stock in one.stocks.all),
    )
    return Finding(
        path_of("GPUInstance", Scope("tenant", over.tenant), over.instance),
        ("spec", "gpuSpec"),
        message,
        RULE,
        related=related,
    )


def _first_too_many(one: Holdings, claims: list[Claim]) -> Claim:
    held: dict[str, int] = {}
    for claim in claims:
        held[claim.tenant] = held.get(claim.tenant, 0) + claim.units
        if one._replace(held=held).shared_held > one.stocks.shared_units:
            return claim
    return claims[-1]
