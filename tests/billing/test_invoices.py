"""An invoice has each second of a use on one line, at the price of its day, and rounds each resource once."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import HOUR, stored, unit
from tests.support.priced_uses import BERLIN, NOVEMBER, OCTOBER, PRICES, at, used

from allotment.billing.invoices import Invoice, compute_invoice, distribute
from allotment.billing.periods import Period, month_period
from allotment.billing.prices import compute_amount, round_money
from allotment.billing.recorded_use import Use
from allotment.billing.usage_totals import clip_uses
from allotment.declared.values import GIBI


def invoice(*uses: Use, period: Period = NOVEMBER, **more: Any) -> Invoice:
    return compute_invoice("kite", clip_uses(uses, period), PRICES, None, **more)


def amounts(result: Invoice) -> list[tuple[str, str, str]]:
    return [(line.key.name, str(line.key.price), str(line.amount)) for line in result.lines]


def test_a_line_is_quantity_times_price() -> None:
    result = invoice(
        used("2026-11-02T10:00", "2026-11-02T20:00"),
        used("2026-11-03T10:00", "2026-11-03T20:00", uid="p2"),
        used(
            "2026-11-02T10:00", "2026-11-12T10:00", kind="GPUStorage", name="models", offer="block-ssd", size=73 * GIBI
        ),
        used(
            "2026-11-02T10:00",
            "2026-11-12T10:00",
            kind="GPUStorageSnapshot",
            name="old",
            offer="block-ssd",
            size=73 * GIBI,
        ),
    )
    assert amounts(result) == [("webui", "0.21", "4.20"), ("models", "0.10", "2.40"), ("old", "0.05", "1.20")]
    assert result.total == Decimal("7.80")
    assert [len(line.parts) for line in result.lines] == [2, 1, 1]


def test_a_price_changes_at_midnight_of_the_billing_time_zone() -> None:
    september = month_period("2026-09", BERLIN)
    use = used("2026-09-30T12:00", "2026-10-01T12:00")
    assert amounts(invoice(use, period=Period(september.start, OCTOBER.end))) == [
        ("webui", "0.21", "2.94"),
        ("webui", "0.24", "2.40"),
    ]
    assert amounts(invoice(use, period=september)) == [("webui", "0.24", "2.40")]
    assert amounts(invoice(use, period=OCTOBER)) == [("webui", "0.21", "2.94")]


def test_a_month_with_a_clock_change_has_an_hour_more_or_less() -> None:
    whole_year = used("2026-01-01T00:00", "2027-01-01T00:00")
    march, october = (invoice(whole_year, period=month_period(f"2026-{month}", BERLIN)) for month in ("03", "10"))
    assert (march.lines[0].weighted_seconds, march.total) == ((31 * 24 - 1) * HOUR, Decimal("178.32"))
    assert (october.lines[0].weighted_seconds, october.total) == ((31 * 24 + 1) * HOUR, Decimal("156.45"))


def test_before_its_first_price_a_use_has_no_price() -> None:
    result = invoice(used("2025-12-31T22:00", "2026-01-01T00:00"), period=month_period("2025-12", BERLIN))
    assert (amounts(result), result.total, bool(result.unpriced_lines)) == ([("webui", "None", "0.00")], 0, True)
    result = invoice(used("2025-12-31T22:00", "2026-01-01T00:00"), period=Period(at("2025-12-31T00:00"), NOVEMBER.end))
    assert amounts(result) == [("webui", "0.24", "0.24"), ("webui", "None", "0.00")]
    assert invoice(used("2026-11-02T10:00", "2026-11-02T20:00", offer="gone")).unpriced_lines


def test_unknown_time_is_free_unless_the_platform_bills_it() -> None:
    use = used("2026-11-02T10:00", "2026-11-02T20:00", certain_end=at("2026-11-02T14:00"))
    (line,) = invoice(use).lines
    assert (line.amount, line.unknown_amount, line.weighted_seconds) == (Decimal("0.84"), Decimal("1.26"), 4 * HOUR)
    (line,) = invoice(use, bills_unknown=True).lines
    assert (line.amount, line.unknown_amount, line.weighted_seconds) == (Decimal("2.10"), Decimal("1.26"), 10 * HOUR)


def test_labels_and_names_have_lines_of_their_own() -> None:
    result = invoice(
        used("2026-11-02T10:00", "2026-11-02T11:00", labels={"film": "7", "team": "art"}),
        used("2026-11-02T11:00", "2026-11-02T12:00", labels={"film": "8"}),
        used("2026-11-02T12:00", "2026-11-02T13:00", labels={"team": "art", "film": "7"}, uid="p2"),
        used("2026-11-02T12:00", "2026-11-02T13:00", name="renamed", uid="p3"),
        used("2026-11-02T12:00", "2026-11-02T13:00", cluster="us-1", uid="p4"),
    )
    assert [
        (line.number, line.key.name, line.key.cluster, dict(line.key.labels), len(line.parts)) for line in result.lines
    ] == [
        (1, "renamed", "eu-1", {}, 1),
        (2, "webui", "eu-1", {"film": "7", "team": "art"}, 2),
        (3, "webui", "eu-1", {"film": "8"}, 1),
        (4, "webui", "us-1", {}, 1),
    ]


@pytest.mark.parametrize(
    ("seconds", "amount"), [(60, "0.00"), (85, "0.00"), (86, "0.01"), (257, "0.01"), (258, "0.02"), (HOUR, "0.21")]
)
def test_an_amount_is_rounded_half_up(seconds: int, amount: str) -> None:
    assert str(round_money(compute_amount(Decimal("0.21"), "GPUInstance", seconds))) == amount


def test_half_a_cent_is_rounded_up() -> None:
    assert str(round_money(compute_amount(Decimal("0.01"), "GPUInstance", HOUR // 2))) == "0.01"
    assert str(round_money(compute_amount(Decimal("0.01"), "GPUInstance", HOUR // 2 - 1))) == "0.00"
    assert str(round_money(compute_amount(Decimal("0.005"), "GPUStorage", 730 * HOUR * GIBI))) == "0.01"


@st.composite
def any_use(draw: Any) -> Use:
    start = draw(st.integers(at("2026-08-01T00:00"), at("2026-12-01T00:00")))
    certain, unknown = draw(st.integers(0, 60 * 86_400)), draw(st.integers(0, 86_400))
    values = {
        "start": start,
        "certain_end": start + certain,
        "end": start + certain + unknown,
        "uid": f"u{draw(st.integers(0, 9**9))}",
        "labels": draw(st.dictionaries(st.sampled_from(["film", "team"]), st.sampled_from("78"), max_size=2)),
    }
    if draw(st.booleans()):
        return unit(0, 0, offer=draw(st.sampled_from(["l4-quarter", "gone"])))._replace(**values)
    return stored(0, 0, gib=draw(st.integers(1, 5)), offer="block-ssd")._replace(**values)


@given(st.lists(any_use(), max_size=10), st.booleans())
def test_each_second_of_each_use_is_on_exactly_one_line(uses: list[Use], bills_unknown: bool) -> None:
    whole = Period(at("2026-09-01T00:00"), at("2026-12-01T00:00"))
    result = invoice(*uses, period=whole, bills_unknown=bills_unknown)
    parts = [part for line in result.lines for part in line.parts]
    for use in uses:
        times = sorted((part.start, part.end) for part in parts if part.use is use)
        start, end = whole.clip(use.start, use.end)
        assert sum(until - begin for begin, until in times) == end - start
        assert all(until <= begin for (_, until), (begin, _) in pairwise(times))
    assert [line.number for line in result.lines] == list(range(1, len(result.lines) + 1))
    assert result.total == sum(line.amount for line in result.lines)


@given(st.lists(any_use(), max_size=10))
def test_the_quantities_of_two_months_are_those_of_both(uses: list[Use]) -> None:
    def quantities(*periods: Period) -> int:
        return sum(line.weighted_seconds for period in periods for line in invoice(*uses, period=period).lines)

    assert quantities(OCTOBER, NOVEMBER) == quantities(Period(OCTOBER.start, NOVEMBER.end))


def test_labels_that_change_often_cost_nothing() -> None:
    """Fifty storages of 10 GiB, with other labels every three hours: by itself, no line is worth half a cent."""
    steps = range(NOVEMBER.start, NOVEMBER.end, 3 * HOUR)
    uses = [
        stored(0, 0, gib=10, offer="block-ssd", name=f"data-{number}", uid=f"u{number}")._replace(
            start=start, certain_end=start + 3 * HOUR, end=start + 3 * HOUR, labels={"step": f"{start}"}
        )
        for number in range(50)
        for start in steps
    ]
    with_labels, without = invoice(*uses), invoice(*(use._replace(labels={}) for use in uses))
    assert (len(with_labels.lines), len(without.lines)) == (50 * 240, 50)
    assert with_labels.total == without.total == Decimal("49.50")
    assert {line.amount for line in with_labels.lines} == {Decimal("0.00"), Decimal("0.01")}
    assert invoice(*uses, rounds_lines=True).total == 0


@given(any_use(), st.lists(st.tuples(st.integers(0, 61 * 86_400), st.sampled_from("abc")), max_size=8), st.booleans())
def test_no_split_of_a_use_changes_the_total(use: Use, cuts: list[tuple[int, str]], bills_unknown: bool) -> None:
    period = Period(at("2026-08-01T00:00"), at("2027-03-01T00:00"))
    times = [use.start, *sorted(min(use.start + after, use.end) for after, _ in cuts), use.end]
    labels = ["", *(label for _, label in cuts)]
    pieces = [
        use._replace(
            start=start,
            certain_end=min(max(start, use.certain_end), end),
            end=end,
            labels={"project": label},
            uid=f"{use.uid}-{number}",
        )
        for number, ((start, end), label) in enumerate(zip(pairwise(times), labels, strict=True))
    ]
    whole, split = (invoice(*uses, period=period, bills_unknown=bills_unknown) for uses in ((use,), pieces))
    assert (split.total, split.unknown_total) == (whole.total, whole.unknown_total)
    for line in split.lines:
        exact = compute_amount(line.key.price or Decimal(0), line.key.kind, line.weighted_seconds)
        assert abs(Fraction(line.amount) - exact) < Fraction(2, 100)
        assert Decimal(0) <= line.unknown_amount


@given(st.lists(st.fractions(0, 100), max_size=9), st.booleans())
def test_cents_are_distributed_by_the_largest_remainder(exact: list[Fraction], rounds_up: bool) -> None:
    cents = sum(exact, Fraction(0)) * 100
    total = Decimal(-(-cents // 1) if rounds_up else cents // 1).scaleb(-2)
    amounts = distribute(total, exact)
    assert sum(amounts, Decimal(0)) == total
    assert all(abs(Fraction(amount) - part) < Fraction(1, 100) for amount, part in zip(amounts, exact, strict=True))


def test_the_order_of_uses_changes_nothing() -> None:
    uses = [
        used(f"2026-11-{day:02d}T10:00", f"2026-11-{day:02d}T11:00", name=name, uid=f"{name}{day}")
        for day in range(1, 9)
        for name in "ab"
    ]
    ends = [[msgspec.structs.replace(line, parts=()) for line in invoice(*order).lines] for order in (uses, uses[::-1])]
    assert ends[0] == ends[1]
