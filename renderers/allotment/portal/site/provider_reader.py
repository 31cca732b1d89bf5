"""Reads the facts of the provider pages: nodes and stocks from the status branches, and the month from batches of tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from allotment.adapters.git.repository import Repository
from allotment.billing.batch_totals import BatchSummary, IncomeKey, add_totals, sum_days, sum_income
from allotment.billing.capacity_totals import CapacityTotal
from allotment.billing.periods import find_day, split_days
from allotment.billing.recorded_use import MAX_UNITS, UsageRecord
from allotment.declared.kinds.node_pool import NodePool
from allotment.observed.status import STOCK, CapacityUsage
from allotment.portal.pages.provider_area import (
    CapacityNow,
    NodePoolTimes,
    NodeTime,
    ProviderArea,
    ProviderCluster,
    ProviderDay,
    ProviderOffer,
)
from allotment.portal.pages.site_facts import ClusterEntry
from allotment.services.billing.month_forecasts import CurrentMonth
from allotment.services.status_view.capacity_reader import read_capacity_usages


def read_capacities(repository: Repository, status_commits: Mapping[str, str]) -> dict[str, CapacityNow]:
    """Return the present nodes and stocks of each cluster from the commit with its status. An unreadable cluster is left out."""
    capacities = read_capacity_usages(repository, status_commits)
    return {cluster: describe_capacity(capacity) for cluster, capacity in capacities.items()}


def describe_capacity(capacity: CapacityUsage) -> CapacityNow:
    """Return the nodes by node pool and the number of units in stock. `capacity` has the intervals that continue."""
    pools: dict[str, dict[str, NodeTime]] = defaultdict(dict)
    units: dict[str, int] = {}
    for interval in capacity.usage:
        if interval.kind == NodePool.__name__:
            pools[interval.name][interval.node] = NodeTime(interval.node, interval.start_time)
        elif interval.kind == STOCK:
            units[interval.name] = min(max(0, interval.units), MAX_UNITS)
    return CapacityNow(
        tuple(NodePoolTimes(name, tuple(sorted(pools[name].values()))) for name in sorted(pools)), sum(units.values())
    )


def build_provider_area(
    batches: Sequence[BatchSummary],
    record: UsageRecord,
    clusters: Iterable[ClusterEntry],
    capacities: Mapping[str, CapacityNow],
    month: CurrentMonth,
) -> ProviderArea:
    """Return the facts of the provider pages, without the days after today.

    `batches` are the summaries of all tenants in the month. `record` has the stocks of the month; it needs no uses.
    """
    starts = [start for start in split_days(month.period, month.zone) if start <= month.now]
    names = [find_day(start, month.zone) for start in starts]
    totals = sum_days(batches, record.stocks, month.period, month.zone)[: len(starts)]
    income = {key: amount for key, amount in sum_income(batches).items() if key.day < len(starts)}
    problems = {each.cluster: each.problems for each in record.clusters}
    return ProviderArea(
        month.name,
        tuple(
            ProviderCluster(
                cluster=cluster,
                capacity=capacities.get(cluster.name),
                days=tuple(
                    ProviderDay(
                        day=name,
                        units=add_totals(_select(totals[at], cluster.name), cluster.name),
                        income=_add_income(income, cluster.name, day=at),
                    )
                    for at, name in enumerate(names)
                ),
                offers=tuple(_list_offers(cluster.name, totals, income)),
                problems=problems.get(cluster.name, ()),
            )
            for cluster in clusters
        ),
    )


def _select(totals: Iterable[CapacityTotal], cluster: str) -> list[CapacityTotal]:
    return [total for total in totals if total.cluster == cluster]


def _add_income(
    income: Mapping[IncomeKey, Fraction], cluster: str, *, day: int | None = None, offer: str | None = None
) -> Fraction:
    """Return the income of a cluster on a day or of an offer; None stands for all."""
    amounts = (
        amount
        for key, amount in income.items()
        if key.cluster == cluster and day in (None, key.day) and offer in (None, key.offer)
    )
    return sum(amounts, Fraction())


def _list_offers(
    cluster: str, days: Iterable[Iterable[CapacityTotal]], income: Mapping[IncomeKey, Fraction]
) -> Iterator[ProviderOffer]:
    """Yield the GPUSpecs and then the StorageSpecs of a cluster, each sorted by name."""
    totals = [total for day in days for total in _select(day, cluster)]
    gpu_specs = {total.gpu_spec for total in totals}
    for name in sorted(gpu_specs):
        units = add_totals((total for total in totals if total.gpu_spec == name), cluster, name)
        yield ProviderOffer(name, units, _add_income(income, cluster, offer=name))
    for name in sorted({key.offer for key in income if key.cluster == cluster} - gpu_specs):
        yield ProviderOffer(name, None, _add_income(income, cluster, offer=name))
