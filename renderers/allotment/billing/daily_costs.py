"""Adds up the cost of each day, and the GPU hours of each GPUSpec, from the lines of invoices."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.invoices import Invoice
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import HOUR_SECONDS, find_day, split_days, split_interval
from allotment.billing.prices import compute_amount
from allotment.declared.tenant_resources import INSTANCE


class DailyCost(NamedTuple):
    """The exact cost of a day by GPUSpec or StorageSpec."""

    day: datetime.date
    amounts: Mapping[str, Fraction]


def sum_daily_costs(bill: MonthlyBill, invoices: Iterable[Invoice]) -> list[DailyCost]:
    """Return the cost of each day of a bill's month. Adjustments of closed months belong to no day.

    The costs of all days are the amounts of the lines, before they are rounded.
    """
    starts = split_days(bill.period, bill.zone)
    sums: list[dict[str, Fraction]] = [defaultdict(Fraction) for _ in starts]
    for invoice in invoices:
        for line in invoice.lines:
            if line.key.price is None:
                continue
            for part in line.parts:
                end = part.end if bill.bills_unknown else part.certain_end
                for index, since, until in split_interval(part.start, end, starts):
                    seconds = (until - since) * part.use.weight
                    sums[index][line.key.offer] += compute_amount(line.key.price, line.key.kind, seconds)
    return [DailyCost(find_day(start, bill.zone), dict(amounts)) for start, amounts in zip(starts, sums, strict=True)]


def sum_gpu_hours(bill: MonthlyBill, invoices: Iterable[Invoice]) -> list[tuple[str, Fraction]]:
    """Return the billed hours of physical GPUs by GPUSpec, sorted. An hour of a quarter of a GPU counts as 1/4."""
    hours: dict[str, Fraction] = defaultdict(Fraction)
    for invoice in invoices:
        for line in invoice.lines:
            if line.key.kind == INSTANCE.kind.name and not line.adjusts:
                gpus = bill.gpus_by_spec.get(line.key.offer, Fraction(1))
                hours[line.key.offer] += gpus * line.weighted_seconds / HOUR_SECONDS
    return sorted(hours.items())
