"""The forecast of a month has the recorded uses until now, and the declared cost from now until the end of the month."""

from __future__ import annotations

import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import HOUR
from tests.support.priced_uses import PRICES, used

from allotment.billing.cost_forecast import CostStep, compute_cost_ahead, compute_cost_so_far
from allotment.billing.periods import month_period, parse_moment
from allotment.capacity.pricing import HOURS_A_MONTH

BERLIN = ZoneInfo("Europe/Berlin")
NOVEMBER = month_period("2026-11", BERLIN)
NOON = parse_moment("2026-11-20T11:00:00Z")


def day(number: int) -> datetime.date:
    return datetime.date(2026, 11, number)


def ahead(now: int, *steps: tuple[int, str]) -> Decimal:
    return compute_cost_ahead([CostStep(day(at), Decimal(cost)) for at, cost in steps], NOVEMBER, now, BERLIN)


def test_a_running_use_counts_until_now_and_an_ended_use_until_its_end() -> None:
    running = used("2026-11-20T01:00", "2026-11-20T09:00", is_open=True)
    ended = used("2026-11-19T00:00", "2026-11-19T10:00", uid="p2")
    before = used("2026-10-31T13:00", "2026-10-31T23:00", uid="p3")
    assert compute_cost_so_far("kite", [running], PRICES, NOVEMBER, NOON) == Decimal("2.10"), "10 hours at 0.21"
    assert compute_cost_so_far("kite", [running, ended, before], PRICES, NOVEMBER, NOON) == Decimal("4.20")


def test_nobody_pays_for_the_time_after_now() -> None:
    future = used("2026-11-20T01:00", "2026-11-20T21:00")
    assert compute_cost_so_far("kite", [future], PRICES, NOVEMBER, NOON) == Decimal("2.10")


def test_the_rest_of_a_month_costs_its_hours() -> None:
    assert ahead(NOVEMBER.start, (1, "730")) == Decimal("720.00"), "November has 720 hours"
    assert ahead(NOON, (20, "730")) == Decimal("252.00"), "from noon of the 20th"
    assert ahead(NOVEMBER.end, (20, "730")) == 0
    assert ahead(NOVEMBER.end + HOUR, (20, "730")) == 0


def test_a_later_price_applies_from_its_midnight() -> None:
    assert ahead(NOON, (20, "730"), (30, "1460")) == Decimal("276.00"), "a day more"


@given(
    st.integers(0, 720 * HOUR),
    st.integers(0, 720 * HOUR),
    st.decimals(0, 1000, places=2),
    st.decimals(0, 1000, places=2),
)
def test_time_ahead_adds_up(first: int, second: int, cost: Decimal, later_cost: Decimal) -> None:
    """The costs before and after a time are the costs of the whole month, but for two roundings."""
    early, late = sorted((NOVEMBER.start + first, NOVEMBER.start + second))
    steps = (1, str(cost)), (15, str(later_cost))
    until_late = NOVEMBER._replace(end=late)
    part = compute_cost_ahead([CostStep(day(at), Decimal(text)) for at, text in steps], until_late, early, BERLIN)
    assert abs(part + ahead(late, *steps) - ahead(early, *steps)) <= Decimal("0.02")
    assert ahead(late, *steps) <= ahead(early, *steps) <= max(cost, later_cost) * 720 / HOURS_A_MONTH + Decimal("0.01")
