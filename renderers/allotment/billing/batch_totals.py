"""Adds up the unit hours and the income of a month from batches of tenants.

The uses of thousands of tenants don't fit into memory together. `summarize_batch` turns the uses of some tenants into a small
summary, and `sum_days` and `sum_income` add the summaries up. The result doesn't depend on the division into batches.
"""

from __future__ import annotations

import datetime
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from allotment.billing.capacity_totals import CapacityTotal, UnitTime, sum_capacity
from allotment.billing.daily_costs import sum_daily_costs
from allotment.billing.invoices import Invoice
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period, split_days, split_interval
from allotment.billing.recorded_use import StockTime, UsageRecord
from allotment.declared.tenant_resources import INSTANCE

_INTEGERS = "q"  # the type code of an array of integers with 64 bits


class UnitKey(NamedTuple):
    """A tenant that uses units of a GPUSpec in a cluster."""

    cluster: str
    gpu_spec: str
    tenant: str


class IncomeKey(NamedTuple):
    """A GPUSpec or StorageSpec of a cluster on a day of the month; the first day is 0."""

    cluster: str
    day: int
    offer: str


class BatchSummary(NamedTuple):
    """The unit times and the exact income of some tenants in a month.

    `days` has the unit times of each day. The array of a key has the start and the certain end of the first unit time, then those
    of the second, and so on.
    """

    days: tuple[Mapping[UnitKey, array[int]], ...]
    income: Mapping[IncomeKey, Fraction]


def summarize_batch(record: UsageRecord, bill: MonthlyBill) -> BatchSummary:
    """Return the summary of some tenants in the month of their bill. `record` has their uses of this month."""
    starts = split_days(bill.period, bill.zone)
    days: list[dict[UnitKey, array[int]]] = [{} for _ in starts]
    for use in record.uses:
        if use.kind != INSTANCE.kind.name:
            continue
        key = UnitKey(use.cluster, use.offer, use.tenant)
        for day, start, end in split_interval(*bill.period.clip(use.start, use.certain_end), starts):
            days[day].setdefault(key, array(_INTEGERS)).extend((start, end))
    return BatchSummary(tuple(days), _sum_bill(bill))


def _sum_bill(bill: MonthlyBill) -> dict[IncomeKey, Fraction]:
    """Return the exact income of a bill. Adjustments of closed months don't count."""
    income: dict[IncomeKey, Fraction] = {}
    for cluster in sorted({line.key.cluster for invoice in bill.invoices for line in invoice.lines}):
        invoices = [_select_cluster(invoice, cluster) for invoice in bill.invoices]
        for day, cost in enumerate(sum_daily_costs(bill, invoices)):
            for offer, amount in cost.amounts.items():
                income[IncomeKey(cluster, day, offer)] = amount
    return income


def _select_cluster(invoice: Invoice, cluster: str) -> Invoice:
    return invoice._replace(lines=tuple(line for line in invoice.lines if line.key.cluster == cluster))


def sum_days(
    batches: Sequence[BatchSummary], stocks: Iterable[StockTime], period: Period, zone: datetime.tzinfo
) -> list[list[CapacityTotal]]:
    """Return the sums of each day of a month, by cluster and GPUSpec. Only the unit times of a day are in memory at a time."""
    times, bounds = list(stocks), [*split_days(period, zone), period.end]
    return [
        sum_capacity(times, _list_unit_times(batches, day), Period(start, end))
        for day, (start, end) in enumerate(pairwise(bounds))
    ]


def _list_unit_times(batches: Iterable[BatchSummary], day: int) -> Iterator[UnitTime]:
    for batch in batches:
        for key, moments in batch.days[day].items():
            for at in range(0, len(moments), 2):
                yield UnitTime(*key, moments[at], moments[at + 1])


def sum_income(batches: Iterable[BatchSummary]) -> dict[IncomeKey, Fraction]:
    """Return the exact income of all batches."""
    income: dict[IncomeKey, Fraction] = defaultdict(Fraction)
    for batch in batches:
        for key, amount in batch.income.items():
            income[key] += amount
    return dict(income)


def add_totals(totals: Iterable[CapacityTotal], cluster: str, gpu_spec: str = "") -> CapacityTotal:
    """Return the sum of some totals under these names."""
    chosen = list(totals)
    return CapacityTotal(
        cluster,
        gpu_spec,
        stock=sum(total.stock for total in chosen),
        sold=sum(total.sold for total in chosen),
        reserved=sum(total.reserved for total in chosen),
        idle=sum(total.idle for total in chosen),
        oversold=sum(total.oversold for total in chosen),
    )
