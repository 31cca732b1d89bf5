"""The reserved units that their tenant doesn't use cost the fraction that main declared at the time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import HOUR, START, unit
from tests.support.priced_uses import PRICES

from allotment.billing.capacity_totals import sum_capacity
from allotment.billing.late_changes import MergedTerms
from allotment.billing.periods import Period
from allotment.billing.prices import PriceList
from allotment.billing.recorded_use import StockTime, Use, drop_stock_overlaps
from allotment.billing.reservations import list_reserved_uses

DAY = Period(START, START + 24 * HOUR)
NO_PRICES: PriceList = PRICES


def stock(units: int, start: int = 0, end: int = 24, name: str = "l4-kite", **more: Any) -> StockTime:
    """Return the time of a stock that is reserved for kite, in hours of the day."""
    values: dict[str, Any] = {
        "cluster": "eu-1",
        "name": name,
        "uid": f"s-{name}-{start}",
        "tenant": "kite",
        "gpu_spec": "l4",
        "units": units,
        "start": START + start * HOUR,
        "certain_end": START + end * HOUR,
    }
    return StockTime(**values | more)


def terms(*steps: tuple[int, str]) -> list[MergedTerms]:
    """Return the merges at hours of the day after which the stock l4-kite declares a fraction, or none if it is empty."""
    return [
        MergedTerms(
            f"c{hour}",
            START + hour * HOUR,
            NO_PRICES,
            None,
            {("eu-1", "l4-kite"): Decimal(fraction)} if fraction else {},
        )
        for hour, fraction in steps
    ]


def reserved(
    *stocks: StockTime, uses: list[Use] | None = None, history: list[MergedTerms] | None = None
) -> list[tuple[str, int, float, float, str]]:
    """Return the name, the units, the first and the last hour, and the fraction of each unused time."""
    result = list_reserved_uses(stocks, uses or [], DAY, history or terms((0, "0.5")))
    return [
        (use.name, use.size, (use.start - START) / HOUR, (use.end - START) / HOUR, str(use.fraction)) for use in result
    ]


def test_the_unused_units_of_a_stock_are_reserved() -> None:
    uses = [unit(2 * HOUR, 5 * HOUR), unit(4 * HOUR, 6 * HOUR, uid="p2")]
    assert reserved(stock(2), uses=uses) == [
        ("l4-kite", 2, 0, 2, "0.5"),
        ("l4-kite", 1, 2, 4, "0.5"),
        ("l4-kite", 1, 5, 6, "0.5"),
        ("l4-kite", 2, 6, 24, "0.5"),
    ]


def test_a_tenant_uses_its_first_stock_first_and_what_others_use_does_not_count() -> None:
    uses = [
        unit(0, 24 * HOUR),
        unit(0, 24 * HOUR, uid="p2", tenant="ada"),
        unit(0, 24 * HOUR, uid="p3", cluster="us-1"),
    ]
    both = stock(1), stock(1, name="l4-more")
    assert reserved(*both, uses=uses) == [("l4-more", 1, 0, 24, "0")]
    assert reserved(stock(4, tenant="")) == []


def test_a_use_counts_until_its_end_that_nobody_observed() -> None:
    use = unit(0, 10 * HOUR)._replace(end=START + 12 * HOUR)
    assert reserved(stock(1), uses=[use]) == [("l4-kite", 1, 12, 24, "0.5")]


def test_a_fraction_applies_from_its_merge_on() -> None:
    history = terms((0, ""), (6, "0.5"), (12, "0.25"), (18, ""))
    assert reserved(stock(1), history=history) == [
        ("l4-kite", 1, 0, 6, "0"),
        ("l4-kite", 1, 6, 12, "0.5"),
        ("l4-kite", 1, 12, 18, "0.25"),
        ("l4-kite", 1, 18, 24, "0"),
    ]


hours = st.integers(0, 24)


@given(
    st.lists(st.builds(stock, st.integers(1, 3), hours, hours, st.sampled_from(["l4-kite", "l4-more"])), max_size=4),
    st.lists(st.tuples(hours, hours), max_size=5),
)
def test_the_reserved_time_is_that_of_the_capacity(stocks: list[StockTime], times: list[tuple[int, int]]) -> None:
    uses = [
        unit(start * HOUR, end * HOUR, uid=f"p{number}") for number, (start, end) in enumerate(times) if start < end
    ]
    apart = drop_stock_overlaps(each for each in stocks if each.start < each.certain_end)
    result = list_reserved_uses(apart, uses, DAY, terms((0, "1")))
    expected = sum(total.reserved for total in sum_capacity(apart, uses, DAY))
    assert sum((use.end - use.start) * use.size for use in result) == expected
