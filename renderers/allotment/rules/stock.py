"""Stock: running instances never hold more units than the stocks have.

In each cluster and for each GPUSpec, the shared stocks have at least the units that tenants hold beyond their own
stocks. A Running instance holds its units even while it waits.
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
RESTORE_STOCK_ADVICE = "restore the stock, or stop instances"

FileField = tuple[str, FieldPath]  # a file and a field of it
UnitCounter = Callable[[UnitClaim], int]


def check(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check every GPUSpec in every cluster. The finding is at the change since the base that oversells, if there is
    such a change:

    - at the Stock that was reduced, if units that instances held at the base no longer fit,
    - otherwise at the first instance, by name, that is new or has grown, and does not fit beside the units held at the
      base.

    Without such a change, the base was oversold already, and the finding is a warning at the Stock. If there is no
    base, an instance is new if its file differs from the last commit. The error is then at the Stock if the Stock
    differs, or if no instance does.
    """
    for unit_usage in compute_unit_usage(catalog, tally.claims):
        cluster = catalog.clusters[unit_usage.cluster]
        unread = any(kind in ("Stock", "GPUSpec") for kind, _ in cluster.invalid | catalog.platform.invalid)
        had = tally.stocks_before(unit_usage.cluster, unit_usage.gpu_spec)
        if unit_usage.excess and (unit_usage.stocks.all_stocks or had.all_stocks) and not unread:
            yield _oversold_finding(unit_usage, had, cluster, tally)


def _oversold_finding(unit_usage: UnitUsage, had: SpecStocks, cluster: ScopeDeclarations, tally: Tally) -> Finding:
    """Return the finding about an oversold spec; `had` are its stocks at the base."""
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
    """Return the remedy for an excess that an instance causes."""
    return FEWER_REPLICAS_ADVICE + STOP_ADVICE if claim.units > 1 else STOP_ADVICE


def _resize_outlook(claim: UnitClaim, tally: Tally) -> str:
    """Return the effect of a merge without a free unit on an instance that changes its GPUSpec; empty for other
    instances."""
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
    """Yield the Stocks of the base that now provide fewer units, or units for fewer tenants, with the changed field."""
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


def check_retained_units(catalog: Catalog, allocated_claims: Iterable[UnitClaim]) -> Iterator[Finding]:
    """Yield a finding for each GPUSpec in a cluster whose instances keep more units than the stocks have, because a
    stock was reduced.

    `allocated_claims` are the claims with the units that each got. A finding is at the spec's first Stock, or at the
    cluster if no Stock is left.
    """
    everything = [claim for claim in allocated_claims if claim.units]
    for unit_usage in compute_unit_usage(catalog, everything):
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
    """Return the finding about an oversold spec at `place`; `claims` are all claims on the spec."""
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
    """Return the first claim that adds to the excess of the kept units, None if there is none; `already` returns the
    kept units of a claim."""
    units_by_tenant = dict(kept_usage.held_by_tenant)
    for claim in claims:
        if more := claim.units - already(claim):
            units_by_tenant[claim.tenant] = units_by_tenant.get(claim.tenant, 0) + more
            if kept_usage._replace(held_by_tenant=units_by_tenant).excess > kept_usage.excess:
                return claim
    return None
