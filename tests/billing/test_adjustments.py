"""The ledger and its adjustments together have the amounts of the present knowledge, whatever was known at each closing."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from tests.support.closed_months import closed, invoices, use

from allotment.billing.adjustments import compute_adjustments
from allotment.billing.ledger import ClosedMonth
from allotment.billing.recorded_use import Use

NAMES = ("webui", "chat", "train")


USES = st.lists(
    st.builds(
        use,
        st.sampled_from(["kite", "ada"]),
        st.sampled_from(NAMES),
        st.integers(0, 700),
        st.integers(1, 40),
        st.sampled_from(["l4-quarter", "l4-whole"]),
    ),
    max_size=6,
    unique_by=lambda each: each.uid,
)


def add_up(months: Iterable[ClosedMonth]) -> dict[tuple[str, str, str], Decimal]:
    """Return the amounts that the months bill for October, by tenant, instance and spec."""
    sums: dict[tuple[str, str, str], Decimal] = {}
    for month in months:
        for tenant, invoice in month.invoices.items():
            for line in invoice.lines:
                if (line.adjusts or month.closing.month) == "2026-10":
                    key = tenant, line.key.name, line.key.offer
                    sums[key] = sums.get(key, Decimal(0)) + line.amount
    return {key: amount for key, amount in sums.items() if amount}


@given(USES, USES, USES)
def test_adjustments_bring_the_ledger_to_the_present_knowledge(
    first: list[Use], second: list[Use], third: list[Use]
) -> None:
    october = closed("2026-10", first)
    november = closed("2026-11", [], compute_adjustments(october, [], invoices(second), {"eu-1"}))
    december = closed("2026-12", [], compute_adjustments(october, [november], invoices(third), {"eu-1"}))
    expected = {
        (invoice.tenant, line.key.name, line.key.offer): line.amount
        for invoice in invoices(third)
        for line in invoice.lines
    }
    assert add_up([october, november, december]) == expected
    assert compute_adjustments(october, [november, december], invoices(third), {"eu-1"}) == {}


def test_a_line_of_a_month_that_nobody_knows_better_needs_no_adjustment() -> None:
    uses = [use("kite", "webui", 5, 10)]
    assert compute_adjustments(closed("2026-10", uses), [], invoices(uses), {"eu-1"}) == {}


def test_the_difference_of_a_line_is_an_adjustment_of_its_month() -> None:
    october = closed("2026-10", [use("kite", "webui", 5, 10)])
    present = invoices([use("kite", "webui", 5, 12), use("ada", "chat", 7, 10)])
    adjustments = compute_adjustments(october, [], present, {"eu-1"})
    assert [(line.adjusts, line.key.name, str(line.amount), line.weighted_seconds) for line in adjustments["kite"]] == [
        ("2026-10", "webui", "0.42", 7200)
    ]
    assert [str(line.amount) for line in adjustments["ada"]] == ["2.10"]
    gone = compute_adjustments(october, [], [], {"eu-1"})
    assert [str(line.amount) for line in gone["kite"]] == ["-2.10"]
    assert compute_adjustments(october, [], present, {"eu-1"}, "ada").keys() == {"ada"}


def test_a_cluster_that_can_not_be_compared_has_no_adjustment() -> None:
    october = closed("2026-10", [use("kite", "webui", 5, 10)])
    assert compute_adjustments(october, [], [], {"us-1"}) == {}
