"""Stock: instances that run never hold more units than there are.

For each cluster and spec, what tenants hold beyond their own stocks is at most what the shared stocks have.
An instance that is Running holds its units, also while it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from allotment.capacity.units import SpecStocks, UnitClaim, UnitUsage, compute_unit_usage
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.stock import Stock
from allotment.declared.layout import Scope, path_of
from allotment.problems import FieldPath, Finding
from allotment.rules.tally import Tally

RULE = "stock"
NAMED_HOLDERS = 5
STOP_ADVICE = "stop an instance, or choose another GPUSpec or cluster"
FEWER_REPLICAS_ADVICE = "write fewer replicas, "
RAISE_COUNT_ADVICE = "raise its count, or stop instances"
COUNT_FIELD: FieldPath = ("spec", "count")
RESTORE_STOCK_ADVICE = "put the stock back, or stop instances"

FileField = tuple[str, FieldPath]  # a file and a field of it
UnitCounter = Callable[[UnitClaim], int]


def check(offers: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check every cluster and spec. The finding is at what changed since the base, if there is one:

    - at the Stock that gives less, where what the base held already has no place because of it,
    - else at the first instance, by name, that is new or has grown and finds no place after all that the base held.

    Where neither is so, the base had oversold it already: that is a warning at the Stock. Without a base, an instance is new if
    its file differs from the last commit. The error is at the Stock if the Stock differs, or no instance.
    """
    for unit_usage in compute_unit_usage(offers, tally.claims):
        cluster = offers.clusters[unit_usage.cluster]
        unread = any(kind in ("Stock", "GPUSpec") for kind, _ in cluster.invalid | offers.platform.invalid)
        had = tally.stocks_before(unit_usage.cluster, unit_usage.gpu_spec)
        if unit_usage.excess and (unit_usage.stocks.all_stocks or had.all_stocks) and not unread:
            yield _oversold_finding(unit_usage, had, cluster, tally)


def _oversold_finding(unit_usage: UnitUsage, had: SpecStocks, cluster: ScopeDeclarations, tally: Tally) -> Finding:
    """Return the finding of an oversold spec; `had` are its stocks at the base."""
    claims = _claims_on_spec(unit_usage, tally.claims)
    kept_usage = unit_usage._replace(held_by_tenant=_sum_by_tenant(claims, tally.units_before))
    stocks = unit_usage.stocks.shared
    if not tally.has_base and stocks and any(tally.is_changed(stock.path) for stock in stocks):
        return _finding_at_stock(unit_usage, claims)
    if kept_usage.excess > kept_usage._replace(stocks=had).excess:
        return _build_finding(
            unit_usage, claims, next(_reduced_stock_fields(had, cluster)), "are held", RESTORE_STOCK_ADVICE
        )
    over = _first_excess_claim(kept_usage, claims, tally.units_before)
    if over is not None:
        field = "replicas" if tally.units_before(over) else "gpuSpec"
        return _build_finding(
            unit_usage,
            claims,
            _instance_field(over, field),
            "would run",
            _claim_advice(over) + _resize_outlook(over, tally),
        )
    if stocks:
        return _finding_at_stock(unit_usage, claims)._replace(warning=tally.has_base)
    first = _first_excess_claim(unit_usage._replace(held_by_tenant={}), claims, lambda _: 0)
    assert first is not None
    return _build_finding(
        unit_usage, claims, _instance_field(first, "gpuSpec"), "would run", _claim_advice(first)
    )._replace(warning=tally.has_base)


def _claim_advice(claim: UnitClaim) -> str:
    """Return how to correct an excess that an instance causes."""
    return FEWER_REPLICAS_ADVICE + STOP_ADVICE if claim.units > 1 else STOP_ADVICE


def _resize_outlook(claim: UnitClaim, tally: Tally) -> str:
    """Return the outlook of an instance that changes its GPUSpec, if it is merged without a free unit; empty of any other."""
    old = tally.claim_before(claim)
    if old is None or old.cluster != claim.cluster or old.gpu_spec == claim.gpu_spec:
        return ""
    return f"; if it is merged, {claim.tenant}/{claim.instance} keeps running on {old.gpu_spec} until a unit is free"


def _finding_at_stock(unit_usage: UnitUsage, claims: list[UnitClaim]) -> Finding:
    """Return the finding at the first shared Stock of an oversold spec."""
    return _build_finding(
        unit_usage, claims, (unit_usage.stocks.shared[0].path, COUNT_FIELD), "are held", RAISE_COUNT_ADVICE
    )


def _reduced_stock_fields(had: SpecStocks, cluster: ScopeDeclarations) -> Iterator[FileField]:
    """Yield the Stocks of the base that give less now, or to fewer, with the field that says so."""
    now = cluster.of_kind(Stock)
    for old in sorted(had.all_stocks, key=lambda stock: stock.path):
        was, new = old.model.spec, now.get(old.model.name)
        if new is None:
            yield old.path, ()
        elif new.model.spec.gpu_spec != was.gpu_spec:
            yield old.path, ("spec", "gpuSpec")
        elif new.model.spec.tenant not in (was.tenant, None):
            yield old.path, ("spec", "tenant")
        elif new.model.spec.count < was.count:
            yield old.path, ("spec", "count")


def _instance_field(claim: UnitClaim, field: str) -> FileField:
    return path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance), ("spec", field)


def check_retained_units(offers: Catalog, allocated_claims: Iterable[UnitClaim]) -> Iterator[Finding]:
    """Yield the clusters and specs of which those who keep their units hold more than there is: its stock was lowered.

    `allocated_claims` are the claims with the units that each got. A finding is at the spec's first Stock, or at the cluster
    where none is left.
    """
    everything = [claim for claim in allocated_claims if claim.units]
    for unit_usage in compute_unit_usage(offers, everything):
        if unit_usage.excess:
            cluster = path_of("Cluster", Scope("cluster", unit_usage.cluster), unit_usage.cluster)
            stocks = [(stock.path, COUNT_FIELD) for stock in unit_usage.stocks.all_stocks]
            place: FileField = stocks[0] if stocks else (cluster, ())
            yield _build_finding(
                unit_usage, _claims_on_spec(unit_usage, everything), place, "are held", RESTORE_STOCK_ADVICE
            )


def _claims_on_spec(unit_usage: UnitUsage, claims: Iterable[UnitClaim]) -> list[UnitClaim]:
    return [claim for claim in claims if (claim.cluster, claim.gpu_spec) == (unit_usage.cluster, unit_usage.gpu_spec)]


def _build_finding(unit_usage: UnitUsage, claims: list[UnitClaim], place: FileField, verb: str, advice: str) -> Finding:
    """Return what is wrong with an oversold spec, at a place; `claims` are all of it."""
    reserved = {owner: unit_usage.stocks.reserved_units(owner) for owner in unit_usage.stocks.reserved}
    stock = f"{unit_usage.stocks.shared_units} shared" + "".join(
        f", {units} held for {owner}" for owner, units in sorted(reserved.items())
    )
    total = sum(claim.units for claim in claims)
    largest = sorted(claims, key=lambda claim: (-claim.units, claim.tenant, claim.instance))
    holders = ", ".join(f"{claim.tenant}/{claim.instance} {claim.units}" for claim in largest[:NAMED_HOLDERS])
    more = f" and {len(largest) - NAMED_HOLDERS} more" if len(largest) > NAMED_HOLDERS else ""
    message = (
        f"{total} units of {unit_usage.gpu_spec} {verb} in {unit_usage.cluster}, {unit_usage.excess} more than its stock ({stock});"
        f" held by {holders}{more}: {advice}"
    )
    related = (
        *(path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance) for claim in claims),
        *(stock.path for stock in unit_usage.stocks.all_stocks),
    )
    return Finding(*place, message, RULE, related=related)


def _sum_by_tenant(claims: Iterable[UnitClaim], units: UnitCounter) -> dict[str, int]:
    units_by_tenant: dict[str, int] = {}
    for claim in claims:
        units_by_tenant[claim.tenant] = units_by_tenant.get(claim.tenant, 0) + units(claim)
    return units_by_tenant


def _first_excess_claim(kept_usage: UnitUsage, claims: Iterable[UnitClaim], already: UnitCounter) -> UnitClaim | None:
    """Return the first claim that oversells more than what is kept does; `already` says how many units of it are kept."""
    units_by_tenant = dict(kept_usage.held_by_tenant)
    for claim in claims:
        if more := claim.units - already(claim):
            units_by_tenant[claim.tenant] = units_by_tenant.get(claim.tenant, 0) + more
            if kept_usage._replace(held_by_tenant=units_by_tenant).excess > kept_usage.excess:
                return claim
    return None
