"""Splits the lines of invoices by day, and adds up the cost of each day and the GPU hours of each GPUSpec."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.invoices import Invoice, InvoiceLine, distribute
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import HOUR_SECONDS, Period, find_day, month_period, split_days, split_interval
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


class LinePart(NamedTuple):
    """The part of an invoice line that belongs to a period: a day of the month, or the month that the line adjusts."""

    period: Period
    weighted_seconds: int
    amount: Decimal


def split_line(bill: MonthlyBill, line: InvoiceLine, starts: Sequence[int]) -> list[LinePart]:
    """Return the parts of a line by the days of its use. Their amounts add up to the amount of the line.

    `starts` are the starts of the days of the bill's month. An adjustment of a closed month belongs to no day, and has a single
    part. A day whose use nobody observed has the amount 0, unless the bill has the price of this use.
    """
    if line.adjusts:
        return [LinePart(month_period(line.adjusts, bill.zone), line.weighted_seconds, line.amount)]
    certain, unknown = dict[int, int](), dict[int, int]()
    for part in line.parts:
        for seconds, since, until in (
            (certain, part.start, part.certain_end),
            (unknown, part.certain_end, part.end),
        ):
            for day, start, end in split_interval(since, until, starts):
                seconds[day] = seconds.get(day, 0) + (end - start) * part.use.weight
    days = sorted(certain.keys() | unknown.keys())
    billed = [(certain, line.amount)]
    if bill.bills_unknown:
        billed = [(certain, line.amount - line.unknown_amount), (unknown, line.unknown_amount)]
    amounts = [
        distribute(
            total, [compute_amount(line.key.price or Decimal(0), line.key.kind, use.get(day, 0)) for day in days]
        )
        for use, total in billed
    ]
    bounds = [*starts, bill.period.end]
    return [
        LinePart(
            Period(bounds[day], bounds[day + 1]),
            sum(use.get(day, 0) for use, _ in billed),
            sum((each[at] for each in amounts), Decimal("0.00")),
        )
        for at, day in enumerate(days)
    ]


def sum_gpu_hours(bill: MonthlyBill, invoices: Iterable[Invoice]) -> list[tuple[str, Fraction]]:
    """Return the billed hours of physical GPUs by GPUSpec, sorted. An hour of a quarter of a GPU counts as 1/4."""
    hours: dict[str, Fraction] = defaultdict(Fraction)
    for invoice in invoices:
        for line in invoice.lines:
            if line.key.kind == INSTANCE.kind.name and not line.adjusts:
                gpus = bill.gpus_by_spec.get(line.key.offer, Fraction(1))
                hours[line.key.offer] += gpus * line.weighted_seconds / HOUR_SECONDS
    return sorted(hours.items())
