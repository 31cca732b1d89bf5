"""The sold, reserved and idle time of a GPUSpec is the time of its stocks, and the sold and oversold time is that of the invoices."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import HOUR, START, stored, unit

from allotment.billing.capacity_totals import CapacityTotal, sum_capacity
from allotment.billing.periods import Period
from allotment.billing.recorded_use import StockTime, Use, drop_stock_overlaps
from allotment.billing.usage_totals import clip_uses

DAY = Period(START, START + 24 * HOUR)


def stock(units: int, start: int = 0, end: int = 24, tenant: str = "", **more: Any) -> StockTime:
    """Return the time of a stock, in hours of the day."""
    values: dict[str, Any] = {
        "cluster": "eu-1",
        "name": f"l4-{tenant or 'shared'}",
        "uid": f"s-{tenant}-{start}",
        "tenant": tenant,
        "gpu_spec": "l4",
        "units": units,
        "start": START + start * HOUR,
        "certain_end": START + end * HOUR,
    }
    return StockTime(**values | more)


def use(tenant: str, start: int, end: int, number: int = 0, **more: Any) -> Use:
    """Return a use of a unit, in hours of the day."""
    return unit(start * HOUR, end * HOUR, tenant=tenant, uid=f"{tenant}-{start}-{number}", **more)


def hours(total: CapacityTotal) -> dict[str, float]:
    return {name: value / HOUR for name, value in total._asdict().items() if isinstance(value, int) and value}


def test_a_tenant_uses_its_reserved_stock_first() -> None:
    uses = [use("kite", 0, 10, number) for number in range(3)] + [use("ada", 5, 10)]
    (total,) = sum_capacity([stock(2, tenant="kite"), stock(4)], uses, DAY)
    assert hours(total) == {
        "stock": 6 * 24,
        "sold": 3 * 10 + 5,
        "reserved": 2 * 14,
        "idle": 4 * 24 - 10 - 5,
    }


def test_sum_capacity_counts_foreign_use_of_reserved_units_as_oversold() -> None:
    (total,) = sum_capacity([stock(2, tenant="kite")], [use("ada", 0, 10)], DAY)
    assert hours(total) == {"stock": 48, "reserved": 48, "oversold": 10}


def test_only_certain_time_and_the_period_count() -> None:
    early = use("kite", -5, 2)
    unknown = use("kite", 4, 9)._replace(certain_end=START + 5 * HOUR)
    (total,) = sum_capacity([stock(1, -10, 30)], [early, unknown, stored(0, 24 * HOUR)], DAY)
    assert hours(total) == {"stock": 24, "sold": 3, "idle": 21}


def test_each_gpu_spec_and_cluster_has_a_total() -> None:
    stocks = [stock(1), stock(1, gpu_spec="a100", name="a"), stock(1, cluster="us-1")]
    totals = sum_capacity(stocks, [use("kite", 0, 1, offer="h100")], DAY)
    assert [(total.cluster, total.gpu_spec) for total in totals] == [
        ("eu-1", "a100"),
        ("eu-1", "h100"),
        ("eu-1", "l4"),
        ("us-1", "l4"),
    ]
    assert sum_capacity([], [], DAY) == []


def test_a_stock_has_one_number_of_units_at_a_time() -> None:
    before, after = stock(2, 0, 10), stock(4, 8, 24, uid="s2")
    assert drop_stock_overlaps([after, before, before]) == [before, after._replace(start=START + 10 * HOUR)]


TIMES = st.tuples(st.integers(-4, 26), st.integers(1, 30))
STOCKS = st.lists(
    st.builds(
        lambda times, units, tenant, number: stock(
            units, times[0], sum(times), tenant, name=f"{tenant}-{number}", uid=f"{number}"
        ),
        TIMES,
        st.integers(0, 4),
        st.sampled_from(["", "kite", "ada"]),
        st.integers(0, 2),
    ),
    max_size=5,
)
USES = st.lists(
    st.builds(
        lambda times, tenant, number: use(tenant, times[0], sum(times), number),
        TIMES,
        st.sampled_from(["kite", "ada", "orbit"]),
        st.integers(0, 5),
    ),
    max_size=8,
)


@given(STOCKS, USES)
def test_invoices_and_idle_and_reserved_time_are_the_time_of_the_stocks(
    stocks: list[StockTime], uses: list[Use]
) -> None:
    times = drop_stock_overlaps(stocks)
    totals = sum_capacity(times, uses, DAY)
    stocked = used = 0
    for each in times:
        start, end = DAY.clip(each.start, each.certain_end)
        stocked += each.units * (end - start)
    for share in clip_uses(uses, DAY):
        used += share.end - share.start
    assert sum(total.stock for total in totals) == stocked
    assert sum(total.sold + total.oversold for total in totals) == used, "the unit × seconds of the invoices"
    for total in totals:
        assert total.sold + total.reserved + total.idle == total.stock
        assert min(total[2:]) >= 0


@given(STOCKS, USES, st.integers(0, 24))
def test_the_sums_of_two_halves_are_those_of_the_whole(stocks: list[StockTime], uses: list[Use], hour: int) -> None:
    times, middle = drop_stock_overlaps(stocks), START + hour * HOUR
    halves = [sum_capacity(times, uses, part) for part in (Period(START, middle), Period(middle, DAY.end))]
    whole = sum_capacity(times, uses, DAY)
    for column in range(2, len(CapacityTotal._fields)):
        assert sum(total[column] for half in halves for total in half) == sum(total[column] for total in whole)
