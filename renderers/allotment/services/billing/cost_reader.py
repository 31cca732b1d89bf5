"""Computes the costs of the declared resources of tenants, and the forecasts of the current month."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from allotment.adapters.git.commit_source import CommitSource
from allotment.billing.cost_forecast import CostStep
from allotment.billing.declared_costs import DeclaredCosts, TenantMonth
from allotment.billing.periods import find_day, format_moment
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import UsageRecord
from allotment.capacity.pricing import Cost, monthly_costs, price_days, sum_by_cluster
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.platform import Billing
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.rules.spending import compute_spending
from allotment.services.billing.month_forecasts import (
    STALE_SECONDS,
    CurrentMonth,
    Forecaster,
    find_declaration_times,
    find_unobserved_times,
    is_observed_in,
)
from allotment.services.check.catalog_check import check_catalog
from allotment.services.check.workers import read_scope


def compute_costs(
    source: CommitSource,
    billing: Billing,
    record: UsageRecord,
    month: CurrentMonth,
    tenants: Iterable[str],
    *,
    catalog: Catalog | None = None,
    declared: Mapping[str, int] | None = None,
) -> DeclaredCosts:
    """Return the costs of the declared resources of `tenants`. A tenant may have usage without a declaration.

    `source` has the declarations and the prices. `record` has the usage of the month. `catalog` is that of `source`, if the
    caller has it already, and `declared` has the time of the first commit that declares each cluster.
    """
    day = find_day(month.now, month.zone)
    catalog = check_catalog(source, day).catalog if catalog is None else catalog._replace(as_of=day)
    forecaster = Forecaster(
        record,
        PriceList(catalog.platform, month.zone),
        month,
        find_unobserved_times(find_declaration_times(source) if declared is None else declared, record, month),
        bills_unknown=billing.unknown == "Billed",
    )
    resources: list[Cost] = []
    months: list[TenantMonth] = []
    for name in sorted(tenants):
        scope = Scope("tenant", name)
        folder = read_folder(scope, read_scope(source, scope).files)[0]
        costs = monthly_costs(catalog, folder)
        resources += costs
        spending = compute_spending(catalog, folder)
        forecast = None
        if forecaster.has_record:
            steps = _list_steps(catalog, folder, day, find_day(month.period.end, month.zone))
            budget = spending.budget.per_month if spending.budget else None
            is_denied = spending.budget is not None and spending.budget.enforcement == "Deny"
            forecast = forecaster.forecast(
                name, steps, steps, sum_by_cluster(costs), budgets=(budget, budget), is_denied=is_denied
            )
        clusters = sorted({cost.cluster for cost in costs})
        months.append(TenantMonth(spending, forecast, tuple(_list_unobserved(clusters, record, month))))
    return DeclaredCosts(
        month=month.name,
        period=month.period,
        day=day,
        currency=billing.currency,
        commit=source.commit,
        clusters=record.clusters,
        resources=tuple(resources),
        tenants=tuple(months),
    )


def _list_unobserved(clusters: Iterable[str], record: UsageRecord, month: CurrentMonth) -> Iterator[str]:
    """Yield a note about each cluster without known usage of the month until now."""
    records = {each.cluster: each for each in record.clusters if is_observed_in(each, month)}
    for cluster in clusters:
        observed_until = records[cluster].observed_until if cluster in records else None
        if observed_until is None:
            yield f"no usage of {cluster} is known for this month, so the declared cost counts since its declaration"
        elif observed_until < month.now - STALE_SECONDS:
            yield f"usage of {cluster} is known until {format_moment(observed_until, month.zone)}, then the declared cost counts"


def _list_steps(catalog: Catalog, folder: ScopeDeclarations, day: datetime.date, end: datetime.date) -> list[CostStep]:
    """Return the monthly cost of a tenant's declarations on a day, and on each later day with a new price before `end`.

    A resource without a price on a day costs nothing, as on the bill.
    """
    days = [day, *sorted(start for start in price_days(catalog, folder) if day < start < end)]
    return [
        CostStep(start, compute_spending(catalog._replace(as_of=start), folder).cost or Decimal(0)) for start in days
    ]
