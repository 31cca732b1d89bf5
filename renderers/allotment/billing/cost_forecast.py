"""Forecasts the cost of a month: the recorded usage so far, and the declared resources until its end."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from allotment.billing.invoices import compute_invoice
from allotment.billing.periods import HOUR_SECONDS, Period, find_midnight, split_interval
from allotment.billing.prices import PriceList, round_money
from allotment.billing.recorded_use import Use
from allotment.billing.usage_totals import clip_uses
from allotment.capacity.pricing import HOURS_A_MONTH


class CostStep(NamedTuple):
    """The monthly cost of declared resources from the midnight of a day on."""

    day: datetime.date
    per_month: Decimal


def compute_cost_so_far(
    tenant: str, uses: Iterable[Use], prices: PriceList, period: Period, now: int, *, bills_unknown: bool = False
) -> Decimal:
    """Return the cost of a tenant's uses from the start of a period until `now`.

    A use that continued at the last observation counts until `now`.
    """
    past = Period(period.start, min(max(period.start, now), period.end))
    current_uses = [use._replace(certain_end=now, end=now) if use.is_open and use.end < now else use for use in uses]
    return compute_invoice(tenant, clip_uses(current_uses, past), prices, None, bills_unknown=bills_unknown).total


def compute_unobserved_cost(
    uses: Sequence[Use],
    prices: PriceList,
    times: Iterable[tuple[int, int]],
    per_month: Decimal,
    now: int,
    *,
    bills_unknown: bool = False,
) -> Decimal:
    """Return by how much the declared cost of a tenant in a cluster exceeds the cost of its uses in the times, rounded half up.

    Nobody observed the cluster in these times. `per_month` is the cost of the declared resources for 730 hours.
    """
    excess = Fraction(0)
    for start, end in times:
        declared = Fraction(per_month) * (end - start) / (HOURS_A_MONTH * HOUR_SECONDS)
        recorded = compute_cost_so_far("", uses, prices, Period(start, end), now, bills_unknown=bills_unknown)
        excess += max(declared - Fraction(recorded), Fraction(0))
    return round_money(excess)


def compute_cost_ahead(steps: Sequence[CostStep], period: Period, now: int, zone: datetime.tzinfo) -> Decimal:
    """Return the cost of declared resources from `now` until the end of a period, rounded half up.

    `steps` are the costs per month of 730 hours, in the order of their days. The first step also applies before its day.
    """
    boundaries = [0, *(find_midnight(step.day, zone) for step in steps[1:])]
    parts = split_interval(min(max(now, period.start), period.end), period.end, boundaries)
    return round_money(
        sum(
            (
                Fraction(steps[at].per_month) * (end - start) / (HOURS_A_MONTH * HOUR_SECONDS)
                for at, start, end in parts
            ),
            Fraction(0),
        )
    )
