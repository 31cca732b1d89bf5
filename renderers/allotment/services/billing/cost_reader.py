"""Computes the costs of the declared resources of tenants, and the forecasts of the current month."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from allotment.adapters.git.commit_source import CommitSource
from allotment.billing.cost_forecast import CostStep
from allotment.billing.declared_costs import DeclaredCost, DeclaredCosts, TenantMonth, describe_cost
from allotment.billing.periods import find_day
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import UsageRecord
from allotment.capacity.pricing import monthly_cost, monthly_costs, price_days
from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.platform import Billing
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.rules.spending import compute_spending
from allotment.services.billing.month_forecasts import CurrentMonth, Forecaster
from allotment.services.check.catalog_check import check_catalog
from allotment.services.check.workers import read_scope


def compute_costs(
    source: CommitSource, billing: Billing, record: UsageRecord, month: CurrentMonth, tenants: Iterable[str]
) -> DeclaredCosts:
    """Return the costs of the declared resources of tenants, and of a tenant without a declaration that used something.

    `source` has the declarations and the prices. `record` has the usage of the month.
    """
    day = find_day(month.now, month.zone)
    catalog = check_catalog(source, day).catalog
    forecaster = Forecaster(record, PriceList(catalog, month.zone), month, bills_unknown=billing.unknown == "Billed")
    resources: list[DeclaredCost] = []
    months: list[TenantMonth] = []
    for name in sorted(tenants):
        scope = Scope("tenant", name)
        folder = read_folder(scope, read_scope(source, scope).files)[0]
        resources += [describe_cost(name, cost) for cost in monthly_costs(catalog, folder)]
        spending = compute_spending(catalog, folder)
        forecast = None
        if forecaster.has_record:
            steps = _list_steps(catalog, folder, day, find_day(month.period.end, month.zone))
            budget = spending.budget
            forecast = forecaster.forecast(
                name,
                steps,
                steps,
                budget.per_month if budget else None,
                is_denied=budget is not None and budget.enforcement == "Deny",
            )
        months.append(TenantMonth(spending, forecast))
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


def _list_steps(catalog: Catalog, folder: ScopeDeclarations, day: datetime.date, end: datetime.date) -> list[CostStep]:
    """Return the monthly cost of a tenant's declarations on a day, and on each later day with a new price before `end`."""
    days = [day, *sorted(start for start in price_days(catalog, folder) if day < start < end)]
    return [CostStep(start, monthly_cost(catalog._replace(as_of=start), folder)) for start in days]
