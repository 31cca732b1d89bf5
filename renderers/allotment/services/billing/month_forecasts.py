"""Forecasts the costs of tenants in the current month from the clone, without a connection to a remote."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

from allotment.adapters.declaration_source import Source
from allotment.adapters.git.repository import Repository
from allotment.billing.cost_forecast import CostStep, compute_cost_ahead, compute_cost_so_far
from allotment.billing.periods import Period, format_moment, month_period
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import UsageRecord, Use
from allotment.declared.kinds.platform import Billing
from allotment.diff.cost_diff import CostChange
from allotment.diff.month_forecast import MonthForecast
from allotment.services.billing.usage_reader import read_fetched_record
from allotment.services.check.catalog_check import check_catalog
from allotment.services.platform_settings import read_platform, read_reporter_keys


class CurrentMonth(NamedTuple):
    """The current month in the billing time zone. `now` is in seconds since 1970."""

    name: str
    period: Period
    zone: datetime.tzinfo
    now: int


def find_current_month(billing: Billing, now: datetime.datetime) -> CurrentMonth:
    """Return the month of a time."""
    zone = ZoneInfo(billing.time_zone)
    name = f"{now.astimezone(zone):%Y-%m}"
    return CurrentMonth(name, month_period(name, zone), zone, int(now.timestamp()))


def read_month_record(
    repository: Repository, source: Source, tenants: Collection[str], month: CurrentMonth
) -> UsageRecord:
    """Return the usage of tenants in a month from the last fetched states of the declared clusters' status branches."""
    return read_fetched_record(repository, read_reporter_keys(source), tenants, month.period.start)


def forecast_months(
    repository: Repository, source: Source, costs: Iterable[CostChange], now: datetime.datetime
) -> tuple[MonthForecast, ...] | None:
    """Return the forecast of each change of a tenant's cost, in the same order.

    `source` has the prices and the clusters. Returns None if the clone has no usage record of any cluster, or if the
    Platform declaration can't be read.
    """
    platform = read_platform(source)
    changes = list(costs)
    if platform is None or not changes:
        return None if platform is None else ()
    billing = platform.spec.billing
    month = find_current_month(billing, now)
    record = read_month_record(repository, source, {change.tenant for change in changes}, month)
    catalog = check_catalog(source, now.astimezone(month.zone).date()).catalog
    forecaster = Forecaster(record, PriceList(catalog, month.zone), month, bills_unknown=billing.unknown == "Billed")
    if not forecaster.has_record:
        return None
    return tuple(
        forecaster.forecast(
            change.tenant,
            [CostStep(cost.day, cost.before) for cost in change.days],
            [CostStep(cost.day, cost.after) for cost in change.days],
            change.budget,
            is_denied=change.denies_excess,
        )
        for change in changes
    )


class Forecaster:
    """Forecasts the cost of the current month for tenants with a usage record."""

    def __init__(self, record: UsageRecord, prices: PriceList, month: CurrentMonth, *, bills_unknown: bool) -> None:
        self._prices = prices
        self._month = month
        self._bills_unknown = bills_unknown
        observed = [cluster.observed_until for cluster in record.clusters if cluster.observed_until is not None]
        self._observed_until = min(observed, default=None)
        self._uses: dict[str, list[Use]] = defaultdict(list)
        for use in record.uses:
            self._uses[use.tenant].append(use)

    @property
    def has_record(self) -> bool:
        """Whether the usage of a cluster is recorded."""
        return self._observed_until is not None

    def forecast(
        self,
        tenant: str,
        before: Sequence[CostStep],
        after: Sequence[CostStep],
        budget: Decimal | None,
        *,
        is_denied: bool,
    ) -> MonthForecast:
        """Return the forecast of a tenant, with the monthly costs of its declared resources before and after a change."""
        month = self._month
        so_far = compute_cost_so_far(
            tenant,
            self._uses.get(tenant, ()),
            self._prices,
            month.period,
            month.now,
            bills_unknown=self._bills_unknown,
        )
        rests = [compute_cost_ahead(steps, month.period, month.now, month.zone) for steps in (before, after)]
        return MonthForecast(
            tenant=tenant,
            month=month.name,
            so_far=so_far,
            before=so_far + rests[0],
            after=so_far + rests[1],
            observed_until=format_moment(self._observed_until or 0),
            budget=budget,
            is_denied=is_denied,
        )
