"""Adds up the monthly costs of declared resources by tenant, cluster, spec, resource or label."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple

from allotment.billing.periods import Period
from allotment.billing.recorded_use import ClusterRecord
from allotment.billing.usage_totals import counts_in, find_value
from allotment.capacity.pricing import Cost
from allotment.diff.month_forecast import MonthForecast
from allotment.rules.spending import TenantSpending


class TenantMonth(NamedTuple):
    """The monthly cost of a tenant's declarations, and the forecast of the current month; None without a usage record.

    `notes` say which usage so far the forecast lacks.
    """

    spending: TenantSpending
    forecast: MonthForecast | None
    notes: tuple[str, ...] = ()


class DeclaredCosts(NamedTuple):
    """The costs of resources and tenants at the prices of the day `day`, sorted by tenant, and the forecasts of a month.

    `commit` is the commit of the declarations. `clusters` are the records of the usage so far.
    """

    month: str
    period: Period
    day: datetime.date
    currency: str
    commit: str
    clusters: tuple[ClusterRecord, ...]
    resources: tuple[Cost, ...]
    tenants: tuple[TenantMonth, ...]


def sum_costs(costs: Iterable[Cost], dimensions: Sequence[str]) -> list[tuple[tuple[str, ...], Decimal]]:
    """Return the monthly cost of each group of resources, sorted. A group has a value for each dimension.

    A dimension is tenant, cluster, spec, instance, storage or label:KEY. `instance` leaves out storages and snapshots, and
    `storage` leaves out instances.
    """
    find_values = [find_value(name) for name in dimensions]
    sums: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for cost in costs:
        if counts_in(cost.kind, dimensions):
            sums[tuple(find(cost.tenant, cost) for find in find_values)] += cost.per_month if cost.has_price else 0
    return sorted(sums.items())
