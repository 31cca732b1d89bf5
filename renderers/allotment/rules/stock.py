"""Stock: the instances that are declared Running never need more units of a GPUSpec than their cluster has in stock.

A Stock can be reserved for a tenant. The tenant uses the units of its reserved stocks first. If its instances need
more, they use units of the shared stocks, which must have enough for all tenants. An instance that is declared Running
holds its units even while it waits to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from allotment.capacity.units import SpecStocks, UnitClaim, UnitUsage, compute_unit_usage
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.stock import Stock
from allotment.declared.layout import Scope, path_of
from allotment.problems import FieldPath, Finding, pluralize
from allotment.rules.tally import Tally

RULE = "stock"
NAMED_HOLDERS = 5
STOP_ADVICE = "stop an instance, or choose another GPUSpec or cluster"
FEWER_REPLICAS_ADVICE = "write fewer replicas, "
RAISE_COUNT_ADVICE = "raise its count, or stop instances"
COUNT_FIELD: FieldPath = ("spec", "count")
RESTORE_STOCK_ADVICE = "restore the stock, or stop instances"

FileField = tuple[str, FieldPath]  # the path of a file, and a field in it
UnitCounter = Callable[[UnitClaim], int]


def check(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check every GPUSpec in every cluster, and yield a finding if it is oversold.

    A GPUSpec is oversold if instances hold more of its units than the cluster has in stock. The finding is at the file
    with the change that caused the excess since the base:

    - If a Stock was reduced, and the units that instances held at the base no longer fit, the finding is at this Stock.
    - Otherwise, the additional units of each instance are added, in the order of names, to the units that instances held
      at the base. The finding is at the first instance with additional units that do not fit.
    - If a cordon takes the units out of service, the rule about cordons has a finding, and this rule has none.
    - If neither a Stock nor an instance caused the excess, instances held too many units at the base already. The
      finding is a warning at the first shared Stock, or at an instance if no Stock is shared.

    Without a base, all units of an instance are additional if its file differs from the last commit, and the finding is
    always an error. The finding is at the first shared Stock if the file of a shared Stock differs from the last
    commit, or if no instance has additional units.
    """
    for unit_usage in compute_unit_usage(catalog, tally.claims):
        cluster = catalog.clusters[unit_usage.cluster]
        unread = any(kind in ("Stock", "GPUSpec") for kind, _ in cluster.invalid | catalog.platform.invalid)
        had = tally.stocks_before(unit_usage.cluster, unit_usage.gpu_spec)
        is_checked = unit_usage.excess and (unit_usage.stocks.all_stocks or had.all_stocks) and not unread
        if is_checked and (finding := _oversold_finding(unit_usage, had, cluster, tally)) is not None:
            yield finding


def _oversold_finding(
    unit_usage: UnitUsage, had: SpecStocks, cluster: ScopeDeclarations, tally: Tally
) -> Finding | None:
    """Return the finding about an oversold GPUSpec, None if cordons are the cause; `had` are its stocks at the base."""
    claims = _claims_on_spec(unit_usage, tally.claims)
    kept_usage = unit_usage._replace(held_by_tenant=_sum_by_tenant(claims, tally.units_before))
    stocks = unit_usage.stocks.shared
    if not tally.has_base and stocks and any(tally.is_changed(stock.path) for stock in stocks):
        return _finding_at_stock(unit_usage, claims)
    reduced = next(_reduced_stock_fields(had, cluster), None)
    if reduced is not None and kept_usage.excess > kept_usage._replace(stocks=had).excess:
        return _build_finding(unit_usage, claims, reduced, "are held", RESTORE_STOCK_ADVICE)
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
    if _is_caused_by_cordons(unit_usage):
        return None
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
    """Return a note that an instance keeps its old GPUSpec until a unit of its new GPUSpec is free.

    The note is empty if the instance is new, moves to another cluster, or keeps its GPUSpec.
    """
    old = tally.claim_before(claim)
    if old is None or old.cluster != claim.cluster or old.gpu_spec == claim.gpu_spec:
        return ""
    return f"; if it is merged, {claim.tenant}/{claim.instance} keeps running on {old.gpu_spec} until a unit is free"


def _finding_at_stock(unit_usage: UnitUsage, claims: list[UnitClaim]) -> Finding:
    """Return the finding at the first shared Stock of an oversold GPUSpec."""
    return _build_finding(
        unit_usage, claims, (unit_usage.stocks.shared[0].path, COUNT_FIELD), "are held", RAISE_COUNT_ADVICE
    )


def _reduced_stock_fields(had: SpecStocks, cluster: ScopeDeclarations) -> Iterator[FileField]:
    """Yield the path and the changed field of each Stock that now has fewer units than at the base, or serves fewer
    tenants. The field is empty if the Stock was removed."""
    now = cluster.of_kind(Stock)
    for old in sorted(had.all_stocks, key=lambda stock: stock.path):
        before, new = old.model.spec, now.get(old.model.name)
        if new is None:
            yield old.path, ()
        elif new.model.spec.gpu_spec != before.gpu_spec:
            yield old.path, ("spec", "gpuSpec")
        elif new.model.spec.tenant not in (before.tenant, None):
            yield old.path, ("spec", "tenant")
        elif new.model.spec.declared_count < before.declared_count:
            yield old.path, ("spec", "count")


def _instance_field(claim: UnitClaim, field: str) -> FileField:
    return path_of("GPUInstance", Scope("tenant", claim.tenant), claim.instance), ("spec", field)


def check_retained_units(catalog: Catalog, allocated_claims: Iterable[UnitClaim]) -> Iterator[Finding]:
    """Check that instances do not keep more units of a GPUSpec than a cluster still has after a Stock was reduced.

    `allocated_claims` are the claims with the units that each instance got. A finding is at the first Stock of the
    GPUSpec, or at the Cluster if the GPUSpec has no Stock any more.
    """
    everything = [claim for claim in allocated_claims if claim.units]
    for unit_usage in compute_unit_usage(catalog, everything):
        if unit_usage.excess and not _is_caused_by_cordons(unit_usage):
            cluster = path_of("Cluster", Scope("cluster", unit_usage.cluster), unit_usage.cluster)
            stocks = [(stock.path, COUNT_FIELD) for stock in unit_usage.stocks.all_stocks]
            place: FileField = stocks[0] if stocks else (cluster, ())
            yield _build_finding(
                unit_usage, _claims_on_spec(unit_usage, everything), place, "are held", RESTORE_STOCK_ADVICE
            )


def _is_caused_by_cordons(unit_usage: UnitUsage) -> bool:
    """Return whether the oversold units would have room without cordons."""
    return unit_usage._replace(stocks=unit_usage.stocks.without_cordons).excess == 0


def _claims_on_spec(unit_usage: UnitUsage, claims: Iterable[UnitClaim]) -> list[UnitClaim]:
    return [claim for claim in claims if (claim.cluster, claim.gpu_spec) == (unit_usage.cluster, unit_usage.gpu_spec)]


def _build_finding(unit_usage: UnitUsage, claims: list[UnitClaim], place: FileField, verb: str, advice: str) -> Finding:
    """Return the finding about an oversold GPUSpec at `place`; `claims` are all claims on the GPUSpec."""
    reserved = {owner: unit_usage.stocks.reserved_units(owner) for owner in unit_usage.stocks.reserved}
    stock = f"{unit_usage.stocks.shared_units} shared" + "".join(
        f", {units} held for {owner}" for owner, units in sorted(reserved.items())
    )
    total = sum(claim.units for claim in claims)
    largest = sorted(claims, key=lambda claim: (-claim.units, claim.tenant, claim.instance))
    holders = ", ".join(f"{claim.tenant}/{claim.instance} {claim.units}" for claim in largest[:NAMED_HOLDERS])
    more = f" and {len(largest) - NAMED_HOLDERS} more" if len(largest) > NAMED_HOLDERS else ""
    message = (
        f"{pluralize(total, 'unit')} of {unit_usage.gpu_spec} {verb} in {unit_usage.cluster}, {unit_usage.excess} more than its stock ({stock});"
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
    """Return the first claim with additional units that increase the excess; None if there is no such claim.

    `kept_usage` is the usage of the units that instances already held at the base, and `already` returns how many of
    these units belong to a claim. All other units of the claim are its additional units.
    """
    units_by_tenant = dict(kept_usage.held_by_tenant)
    for claim in claims:
        if more := claim.units - already(claim):
            units_by_tenant[claim.tenant] = units_by_tenant.get(claim.tenant, 0) + more
            if kept_usage._replace(held_by_tenant=units_by_tenant).excess > kept_usage.excess:
                return claim
    return None
