"""The costs of all days are the amounts of the lines, and each day has the costs from midnight to midnight."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.monthly_bills import bill
from tests.support.priced_uses import OCTOBER, used

from allotment.billing.daily_costs import split_line, sum_daily_costs, sum_gpu_hours
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import split_days
from allotment.billing.prices import round_money
from allotment.billing.recorded_use import Use
from allotment.declared.values import GIBI


def days(result: MonthlyBill) -> dict[str, dict[str, str]]:
    """Return the costs of the days with a cost."""
    return {
        str(daily.day): {spec: str(round_money(amount)) for spec, amount in daily.amounts.items()}
        for daily in sum_daily_costs(result, result.invoices)
        if daily.amounts
    }


def test_a_use_over_midnight_is_on_two_days() -> None:
    night = used("2026-10-01T18:00", "2026-10-02T08:00")
    volume = used("2026-10-02T10:00", "2026-10-02T20:00", kind="GPUStorage", offer="block-ssd", size=730 * GIBI)
    assert days(bill(night, volume)) == {
        "2026-10-01": {"l4-quarter": "0.84"},
        "2026-10-02": {"l4-quarter": "2.10", "block-ssd": "1.00"},
    }


def test_each_day_of_the_month_is_there() -> None:
    dates = [daily.day for daily in sum_daily_costs(bill(), ())]
    assert (dates[0], dates[-1], len(dates)) == (datetime.date(2026, 10, 1), datetime.date(2026, 10, 31), 31)


def test_unknown_time_costs_only_if_it_is_billed() -> None:
    use = used("2026-10-05T06:00", "2026-10-05T16:00")
    use = use._replace(certain_end=use.start + 3600)
    assert days(bill(use)) == {"2026-10-05": {"l4-quarter": "0.21"}}
    assert days(bill(use, bills_unknown=True)) == {"2026-10-05": {"l4-quarter": "2.10"}}


def test_an_adjustment_belongs_to_no_day_and_to_no_gpu_hours() -> None:
    use = used("2026-10-05T06:00", "2026-10-05T16:00")
    (line,) = bill(use).invoices[0].lines
    adjusted = bill(
        use, adjustments=[msgspec.structs.replace(line, parts=(), adjusts="2026-09", amount=Decimal("-9.00"))]
    )
    assert days(adjusted) == days(bill(use))
    assert sum_gpu_hours(adjusted, adjusted.invoices) == [("l4-quarter", Fraction(10, 4))]


def test_a_part_of_a_gpu_is_a_fraction_of_an_hour() -> None:
    result = bill(
        used("2026-10-05T06:00", "2026-10-05T16:00"), used("2026-10-05T06:00", "2026-10-05T07:00", offer="l4-whole")
    )
    assert sum_gpu_hours(result, result.invoices) == [("l4-quarter", Fraction(5, 2)), ("l4-whole", Fraction(1))]


@given(
    st.lists(
        st.tuples(st.integers(0, 80_000), st.integers(1, 400_000), st.integers(0, 400_000)), min_size=1, max_size=6
    ),
    st.booleans(),
)
def test_the_parts_of_a_line_add_up_to_the_line(uses: list[tuple[int, int, int]], bills_unknown: bool) -> None:
    def build(number: int, start: int, certain: int, unknown: int) -> Use:
        moments = [OCTOBER.start + start, OCTOBER.start + start + certain, OCTOBER.start + start + certain + unknown]
        values: dict[str, Any] = dict(zip(("start", "certain_end", "end"), moments, strict=True))
        return used("2026-10-01T00:00", "2026-10-01T01:00", uid=f"p{number}")._replace(
            labels={"team": f"t{number % 2}"}, **values
        )

    result = bill(*(build(number, *values) for number, values in enumerate(uses)), bills_unknown=bills_unknown)
    starts = split_days(result.period, result.zone)
    for line in result.invoices[0].lines:
        parts = split_line(result, line, starts)
        assert sum(part.amount for part in parts) == line.amount
        assert sum(part.weighted_seconds for part in parts) == line.weighted_seconds
        assert [part.period.start for part in parts] == sorted({part.period.start for part in parts})
        assert all(part.amount >= 0 for part in parts)


@given(
    st.lists(
        st.tuples(st.integers(0, 740), st.integers(1, 60), st.sampled_from(["l4-quarter", "l4-whole"])), max_size=6
    )
)
def test_the_days_add_up_to_the_lines(uses: list[tuple[int, int, str]]) -> None:
    def build(number: int, start: int, hours: int, offer: str) -> Use:
        values: dict[str, Any] = {"start": OCTOBER.start + start * 3600, "end": OCTOBER.start + (start + hours) * 3600}
        return used("2026-10-01T00:00", "2026-10-01T01:00")._replace(
            uid=f"p{number}", name=f"n{number}", offer=offer, certain_end=values["end"], **values
        )

    result = bill(*(build(number, *values) for number, values in enumerate(uses)))
    by_line = sum((line.amount for line in result.invoices[0].lines), Decimal(0))
    by_day = sum(
        (amount for daily in sum_daily_costs(result, result.invoices) for amount in daily.amounts.values()), Fraction()
    )
    assert abs(Fraction(by_line) - by_day) <= Fraction(len(result.invoices[0].lines), 200), (
        "but for the rounding of lines"
    )
