"""Stock: instances that run never hold more units than there are.

For each cluster and spec, what tenants hold beyond their own stocks is at most what the shared stocks have.
An instance that is Running holds its units, also while it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.accounts.capacity import Claim, Holdings, holdings
from allotment.declared.inventory import Offers
from allotment.declared.layout import Scope, path_of
from allotment.problems import FieldPath, Finding
from allotment.rules.tally import Tally

RULE = "stock"
NAMED_HOLDERS = 5
TOO_MANY = "stop one, or choose another GPUSpec or cluster"
LOWERED = "put the stock back, or stop instances"

Place = tuple[str, FieldPath]  # a file and a field of it


def check(offers: Offers, tally: Tally) -> Iterator[Finding]:
    """Check every cluster and spec. The finding is at the first instance too many, those the base knew counted first."""
    order = list(tally.newest_last)
    for one in holdings(offers, tally.claims):
        unread = any(
            kind in ("Stock", "GPUSpec") for kind, _ in offers.clusters[one.cluster].broken | offers.platform.broken
        )
        if one.excess and one.stocks.all and not unread:
            claims = _claims_of(one, order)
            over = _first_too_many(one, claims)
            path = path_of("GPUInstance", Scope("tenant", over.tenant), over.instance)
            yield _finding(one, claims, (path, ("spec", "gpuSpec")), "would run", TOO_MANY)


def beneath_held(offers: Offers, granted: Iterable[Claim]) -> Iterator[Finding]:
    """Yield the clusters and specs of which those who keep their units hold more than there is: its stock was lowered.

    `granted` are the claims with the units that each got. A finding is at the spec's first Stock, or at the cluster where
    none is left.
    """
    everything = [claim for claim in granted if claim.units]
    for one in holdings(offers, everything):
        if one.excess:
            cluster = path_of("Cluster", Scope("cluster", one.cluster), one.cluster)
            stocks = [(stock.path, ("spec", "count")) for stock in one.stocks.all]
            place: Place = stocks[0] if stocks else (cluster, ())
            yield _finding(one, _claims_of(one, everything), place, "are held", LOWERED)


def _claims_of(one: Holdings, claims: Iterable[Claim]) -> list[Claim]:
    return [claim for claim in claims if (claim.cluster, claim.gpu_spec) == (one.cluster, one.gpu_spec)]


def _finding(one: Holdings, claims: list[Claim], place: Place, verb: str, advice: str) -> Finding:
    """Return what is wrong with an oversold spec, at a place; `claims` are all of it."""
    reserved = {owner: one.stocks.units(owner) for owner in one.stocks.reserved}
    stock = f"{one.stocks.shared_units} shared" + "".join(
        f", {units} held for {owner}" for owner, units in sorted(reserved.items())
    )
    total = sum(claim.units for claim in claims)
    largest = sorted(claims, key=lambda claim: (-claim.units, claim.tenant, claim.instance))
    holders = ", ".join(f"{claim.tenant}/{claim.instance} {claim.units}" for claim in largest[:NAMED_HOLDERS])
    more = f" and {len(largest) - NAMED_HOLDERS} more" if len(largest) > NAMED_HOLDERS else ""
    message = (
        f"{total} units of {one.gpu_spec} {verb} in {one.cluster}, {one.excess} more than its stock ({stock});"
        f" held by {holders}{more}: {advice}"
    )
    related = (
        *(path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance) for claim in claims),
        *(stock.path for stock in one.stocks.all),
    )
    return Finding(*place, message, RULE, related=related)


def _first_too_many(one: Holdings, claims: list[Claim]) -> Claim:
    held: dict[str, int] = {}
    for claim in claims:
        held[claim.tenant] = held.get(claim.tenant, 0) + claim.units
        if one._replace(held=held).shared_held > one.stocks.shared_units:
            return claim
    return claims[-1]
