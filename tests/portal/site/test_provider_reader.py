"""The sums of a month are those of its stocks and uses, for any division of the tenants into batches."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import HOUR, START, stored, unit

from allotment.billing.batch_totals import BatchSummary, IncomeKey, sum_days, summarize_batch
from allotment.billing.capacity_totals import sum_capacity
from allotment.billing.invoices import Invoice, InvoiceLine, LineKey
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import month_period
from allotment.billing.recorded_use import ClusterRecord, StockTime, UsageRecord, Use, drop_stock_overlaps
from allotment.billing.usage_totals import Share, clip_uses
from allotment.observed.status import CapacityUsage, UsageInterval
from allotment.portal.pages.provider_area import NodeTime, ProviderArea
from allotment.portal.pages.site_facts import ClusterEntry
from allotment.portal.site.provider_reader import build_provider_area, describe_capacity
from allotment.services.billing.month_forecasts import CurrentMonth

ZONE = datetime.UTC
PERIOD = month_period("2026-11", ZONE)
MONTH = CurrentMonth("2026-11", PERIOD, ZONE, PERIOD.end - 1)
TENANTS = ("kite", "ada", "orbit")
CLUSTERS = tuple(
    ClusterEntry(
        name,
        name.upper(),
        "",
        "Active",
        observed_at="2026-11-30T23:59:00Z",
        is_stale=False,
        trouble="",
        has_ssh=False,
        has_public_ports=True,
    )
    for name in ("eu-1", "us-1")
)


def stock(units: int, start: int, end: int, tenant: str = "", number: int = 0, cluster: str = "eu-1") -> StockTime:
    """Return the time of a stock, in hours of the month."""
    return StockTime(
        cluster=cluster,
        name=f"l4-{tenant}-{number}",
        uid=f"{number}",
        tenant=tenant,
        gpu_spec="l4",
        units=units,
        start=START + start * HOUR,
        certain_end=START + end * HOUR,
    )


def use(tenant: str, start: int, end: int, cluster: str = "eu-1") -> Use:
    """Return a use of a unit, in hours of the month."""
    return unit(start * HOUR, end * HOUR, tenant=tenant, cluster=cluster)


def compute_bill(uses: Sequence[Use]) -> MonthlyBill:
    """Return a bill with a line for each use, at 0.07 per hour, or per GiB and month."""
    invoices = []
    for tenant in TENANTS:
        shares = clip_uses((each for each in uses if each.tenant == tenant), PERIOD)
        lines = tuple(describe_line(share, number) for number, share in enumerate(shares, 1))
        invoices.append(Invoice(tenant, lines, None))
    return MonthlyBill(
        month="2026-11",
        provider="",
        period=PERIOD,
        zone=ZONE,
        currency="EUR",
        bills_unknown=False,
        commit="c0ffee",
        clusters=(),
        invoices=tuple(invoices),
        gpus_by_spec={},
    )


def describe_line(share: Share, number: int) -> InvoiceLine:
    key = LineKey(share.use.kind, share.use.name, share.use.cluster, share.use.offer, {}, Decimal("0.07"))
    zero = Decimal("0.00")
    return InvoiceLine(
        number=number,
        adjusts="",
        key=key,
        weighted_seconds=(share.certain_end - share.start) * share.use.weight,
        unknown_weighted_seconds=0,
        amount=zero,
        unknown_amount=zero,
        parts=(share,),
    )


def summarize(uses: Sequence[Use], tenants: Sequence[str]) -> BatchSummary:
    """Return the summary of a batch of tenants as another process returns it."""
    chosen = tuple(each for each in uses if each.tenant in tenants)
    record = UsageRecord((), chosen, frozenset(tenants))
    summary: BatchSummary = pickle.loads(pickle.dumps(summarize_batch(record, compute_bill(chosen))))
    return summary


def combine_batches(
    stocks: Sequence[StockTime], uses: Sequence[Use], batches: Sequence[Sequence[str]], month: CurrentMonth = MONTH
) -> ProviderArea:
    record = UsageRecord((), (), frozenset(), tuple(stocks))
    return build_provider_area([summarize(uses, batch) for batch in batches], record, CLUSTERS, {}, month)


def test_a_use_over_midnight_counts_on_both_days() -> None:
    uses = [use("kite", 22, 27), use("ada", 1, 3), stored(0, 24 * HOUR, tenant="ada")]
    area = combine_batches([stock(2, 0, 48), stock(1, 0, 48, "kite")], uses, [TENANTS])
    first, second, third = area.clusters[0].days[:3]
    assert [day.units[2:] for day in (first, second)] == [
        (72 * HOUR, 4 * HOUR, 22 * HOUR, 46 * HOUR, 0),
        (72 * HOUR, 3 * HOUR, 21 * HOUR, 48 * HOUR, 0),
    ]
    stored_income = Fraction("0.7") * 24 / 730
    assert (first.income, second.income) == (4 * Fraction("0.07") + stored_income, 3 * Fraction("0.07"))
    assert (third.units.stock, third.income) == (0, 0)
    gpu_spec, storage_spec = area.clusters[0].offers
    assert (gpu_spec.name, gpu_spec.income) == ("l4", 7 * Fraction("0.07"))
    assert (storage_spec.name, storage_spec.units, storage_spec.income) == ("fast", None, stored_income)
    assert area.clusters[1].income == 0


def test_days_after_today_are_left_out() -> None:
    month = MONTH._replace(now=START + 30 * HOUR)
    area = combine_batches([stock(1, 0, 720)], [use("kite", 40, 60)], [TENANTS], month)
    assert [str(day.day) for day in area.clusters[0].days] == ["2026-11-01", "2026-11-02"]
    assert area.clusters[0].units.stock == 48 * HOUR
    assert area.clusters[0].income == 8 * Fraction("0.07")
    assert area.clusters[0].offers[0].income == 8 * Fraction("0.07")


def test_a_summary_has_no_uses() -> None:
    summary = summarize([use("kite", 22, 27), use("kite", 30, 31)], TENANTS)
    assert [{tuple(key): list(moments) for key, moments in day.items()} for day in summary.days[:2]] == [
        {("eu-1", "l4", "kite"): [START + 22 * HOUR, START + 24 * HOUR]},
        {("eu-1", "l4", "kite"): [START + 24 * HOUR, START + 27 * HOUR, START + 30 * HOUR, START + 31 * HOUR]},
    ]
    assert summary.income == {
        IncomeKey("eu-1", 0, "l4"): 2 * Fraction("0.07"),
        IncomeKey("eu-1", 1, "l4"): 4 * Fraction("0.07"),
    }


def test_problems_of_the_record_belong_to_their_cluster() -> None:
    records = (ClusterRecord.of_undeclared("us-1", "the log is missing"),)
    area = build_provider_area([], UsageRecord(records, (), frozenset()), CLUSTERS, {}, MONTH)
    assert [cluster.problems for cluster in area.clusters] == [(), ("the log is missing",)]


def test_the_nodes_are_grouped_by_node_pool() -> None:
    since = "2026-10-01T00:00:00Z"
    intervals = (
        UsageInterval("NodePool", "l4", "u2", since, node="n2"),
        UsageInterval("NodePool", "l4", "u1", since, node="n1"),
        UsageInterval("NodePool", "a100", "u3", since, node="n3"),
        UsageInterval("Stock", "l4", "s", since, gpu_spec="l4", units=8),
        UsageInterval("Stock", "forged", "f", since, gpu_spec="l4", units=-5),
    )
    capacity = describe_capacity(CapacityUsage("eu-1", since, intervals))
    assert [(pool.name, pool.nodes) for pool in capacity.pools] == [
        ("a100", (NodeTime("n3", since),)),
        ("l4", (NodeTime("n1", since), NodeTime("n2", since))),
    ]
    assert (capacity.node_count, capacity.units) == (3, 8)


TIMES = st.tuples(st.integers(-30, 730), st.integers(1, 300))
STOCKS = st.lists(
    st.builds(
        lambda times, units, tenant, number, cluster: stock(units, times[0], sum(times), tenant, number, cluster),
        TIMES,
        st.integers(0, 4),
        st.sampled_from(["", "kite", "ada"]),
        st.integers(0, 2),
        st.sampled_from(["eu-1", "us-1"]),
    ),
    max_size=5,
)
USES = st.lists(
    st.builds(
        lambda times, tenant, cluster: use(tenant, times[0], sum(times), cluster),
        TIMES,
        st.sampled_from(TENANTS),
        st.sampled_from(["eu-1", "us-1"]),
    ),
    max_size=8,
)
BATCHES = st.sampled_from([(TENANTS,), (("orbit",), ("kite", "ada")), (("ada",), ("kite",), ("orbit",), ())])


@given(STOCKS, USES, BATCHES)
def test_any_division_into_batches_has_the_same_sums(
    stocks: list[StockTime], uses: list[Use], batches: Sequence[Sequence[str]]
) -> None:
    times = [
        time for cluster in CLUSTERS for time in drop_stock_overlaps(s for s in stocks if s.cluster == cluster.name)
    ]
    area = combine_batches(times, uses, batches)
    assert area == combine_batches(times, uses, (TENANTS,))
    whole = {total.cluster: total for total in sum_capacity(times, uses, PERIOD)}
    for cluster in area.clusters:
        for day in cluster.days:
            assert day.units.sold + day.units.reserved + day.units.idle == day.units.stock
        name = cluster.cluster.name
        assert cluster.units[2:] == (whole[name][2:] if name in whole else (0, 0, 0, 0, 0))
        assert cluster.income == sum((offer.income for offer in cluster.offers), Fraction())
    used = sum(share.certain_end - share.start for share in clip_uses(uses, PERIOD))
    assert sum((cluster.income for cluster in area.clusters), Fraction()) == Fraction("0.07") * used / HOUR


@given(STOCKS)
def test_the_days_have_the_time_of_the_stocks(stocks: list[StockTime]) -> None:
    times = drop_stock_overlaps(stocks)
    expected = 0
    for time in times:
        start, end = PERIOD.clip(time.start, time.certain_end)
        expected += time.units * (end - start)
    totals = [total for day in sum_days([], times, PERIOD, ZONE) for total in day]
    assert sum(total.stock for total in totals) == expected
