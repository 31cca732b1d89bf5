"""Forecasts the costs of tenants in the current month from the clone, without a connection to a remote."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

from allotment.adapters.declaration_source import Source
from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.history import MAX_COMMITS, list_first_parents
from allotment.adapters.git.repository import Repository
from allotment.billing.cost_forecast import (
    CostStep,
    compute_cost_ahead,
    compute_cost_so_far,
    compute_unobserved_cost,
)
from allotment.billing.periods import HOUR_SECONDS, Period, format_moment, month_period
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import ClusterRecord, UsageRecord, Use
from allotment.branches.platform_settings import has_status_at_origin, list_cluster_names, read_reporter_keys
from allotment.declared.kinds.platform import Billing
from allotment.diff.cost_diff import CostChange
from allotment.diff.month_forecast import MonthForecast
from allotment.services.billing.usage_reader import read_fetched_record
from allotment.services.check.catalog_check import check_catalog

STALE_SECONDS = 2 * HOUR_SECONDS  # a reporter reports each hour
_CLOCK_TOLERANCE = 86_400  # seconds that the clock of a cluster may be ahead


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
    return read_fetched_record(
        repository,
        read_reporter_keys(source),
        tenants,
        month.period.start,
        is_at_origin=has_status_at_origin(source),
    )


class ForecastChanges(NamedTuple):
    """The forecasts of changes. `unobserved_clusters` are the clusters without a readable record of this month."""

    forecasts: tuple[MonthForecast, ...]
    unobserved_clusters: frozenset[str]


def forecast_changes(
    repository: Repository,
    source: CommitSource,
    billing: Billing,
    changes: Sequence[CostChange],
    now: datetime.datetime,
) -> ForecastChanges:
    """Return the forecast of each change of a tenant's cost, in the same order; none if no cluster was observed this month.

    `source` has the prices and the clusters.
    """
    month = find_current_month(billing, now)
    record = read_month_record(repository, source, {change.tenant for change in changes}, month)
    unobserved = frozenset(list_cluster_names(source)) - {
        each.cluster for each in record.clusters if is_observed_in(each, month)
    }
    catalog = check_catalog(source, now.astimezone(month.zone).date()).catalog
    forecaster = Forecaster(
        record,
        PriceList(catalog.platform, month.zone),
        month,
        find_unobserved_times(find_declaration_times(source), record, month),
        bills_unknown=billing.unknown == "Billed",
    )
    forecasts = tuple(
        forecaster.forecast(
            change.tenant,
            [CostStep(cost.day, cost.before) for cost in change.days],
            [CostStep(cost.day, cost.after) for cost in change.days],
            change.before_by_cluster,
            budgets=(change.budget_before, change.budget),
            is_denied=change.denies_excess,
        )
        for change in (changes if forecaster.has_record else ())
    )
    return ForecastChanges(forecasts, unobserved)


def is_observed_in(record: ClusterRecord, month: CurrentMonth) -> bool:
    """Return whether a record can be read and has something of the month. A record from the future is a forgery."""
    if record.problems or record.observed_until is None:
        return False
    return month.period.start <= record.observed_until <= month.now + _CLOCK_TOLERANCE


def find_declaration_times(source: CommitSource) -> dict[str, int]:
    """Return the time of the first commit that declares each cluster of a commit."""
    prefix = source.repository.folder_prefix(source.root)
    times = {}
    for cluster in list_cluster_names(source):
        folder = f"{prefix}/clusters/{cluster}" if prefix else f"clusters/{cluster}"
        commits = list_first_parents(source.repository, source.commit, [folder], MAX_COMMITS)
        times[cluster] = commits[-1].time if commits else 0
    return times


def find_unobserved_times(
    declared: Mapping[str, int], record: UsageRecord, month: CurrentMonth
) -> Mapping[str, Sequence[tuple[int, int]]]:
    """Return the times of the month until now before the first and after the last observation of each cluster.

    `declared` has the time of the first commit that declares each cluster. The time before it doesn't count, nor does a gap
    between two observations, because a use that continued is recorded.
    """
    records = {each.cluster: each for each in record.clusters if is_observed_in(each, month)}
    past = Period(month.period.start, min(month.now, month.period.end))
    times: dict[str, Sequence[tuple[int, int]]] = {}
    for cluster, declared_at in declared.items():
        each = records.get(cluster)
        since = past.end if each is None else each.recorded_since or past.start
        until = past.end if each is None else each.observed_until or past.end
        missing = [(past.clip(declared_at, past.end)[0], since)]
        missing += [(until, past.end)] if until < month.now - STALE_SECONDS else []
        times[cluster] = [(begin, end) for begin, end in missing if begin < end]
    return times


class Forecaster:
    """Forecasts the cost of the current month for tenants with a usage record.

    `unobserved` has the times of the month in which nobody observed a cluster, by cluster.
    """

    def __init__(
        self,
        record: UsageRecord,
        prices: PriceList,
        month: CurrentMonth,
        unobserved: Mapping[str, Sequence[tuple[int, int]]],
        *,
        bills_unknown: bool,
    ) -> None:
        self._prices = prices
        self._month = month
        self._unobserved = unobserved
        self._bills_unknown = bills_unknown
        observed = [
            each.observed_until for each in record.clusters if is_observed_in(each, month) and each.observed_until
        ]
        self._observed_until = min(observed, default=None)
        self._uses: dict[str, list[Use]] = defaultdict(list)
        for use in record.uses:
            self._uses[use.tenant].append(use)

    @property
    def has_record(self) -> bool:
        """Whether a cluster was observed in the month."""
        return self._observed_until is not None

    def forecast(
        self,
        tenant: str,
        before: Sequence[CostStep],
        after: Sequence[CostStep],
        by_cluster: Mapping[str, Decimal],
        *,
        budgets: tuple[Decimal | None, Decimal | None],
        is_denied: bool,
    ) -> MonthForecast:
        """Return the forecast of a tenant, with the monthly costs of its declared resources before and after a change.

        `by_cluster` is the monthly cost before the change in each cluster, and `budgets` are the budgets per month before and after
        it.
        """
        month = self._month
        uses = self._uses.get(tenant, ())
        recorded = compute_cost_so_far(
            tenant, uses, self._prices, month.period, month.now, bills_unknown=self._bills_unknown
        )
        unobserved = Decimal("0.00")
        for cluster, per_month in by_cluster.items():
            if times := self._unobserved.get(cluster):
                here = [use for use in uses if use.cluster == cluster]
                unobserved += compute_unobserved_cost(
                    here, self._prices, times, per_month, month.now, bills_unknown=self._bills_unknown
                )
        so_far = recorded + unobserved
        rests = [compute_cost_ahead(steps, month.period, month.now, month.zone) for steps in (before, after)]
        return MonthForecast(
            tenant=tenant,
            month=month.name,
            so_far=so_far,
            unobserved=unobserved,
            before=so_far + rests[0],
            after=so_far + rests[1],
            observed_until=format_moment(self._observed_until or 0),
            budget_before=budgets[0],
            budget=budgets[1],
            is_denied=is_denied,
        )
