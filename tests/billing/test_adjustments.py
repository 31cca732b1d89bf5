"""The ledger and its adjustments together have the amounts of the present knowledge, whatever was known at each closing."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from tests.billing.test_invoices import BERLIN, OCTOBER, PRICES, used

from allotment.billing.adjustments import compute_adjustments
from allotment.billing.invoices import Invoice, InvoiceLine, compute_invoice
from allotment.billing.ledger import ClosedMonth, close_month, dump_month, parse_month
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period, month_period
from allotment.billing.recorded_use import ClusterRecord, Use
from allotment.billing.usage_totals import clip_uses

NAMES = ("webui", "chat", "train")
RECORD = ClusterRecord("eu-1", OCTOBER.end, OCTOBER.start, is_signed=True, commit="c" * 40, problems=(), gaps=())


def invoices(uses: Iterable[Use], period: Period = OCTOBER) -> list[Invoice]:
    shares = clip_uses(uses, period)
    tenants = sorted({share.use.tenant for share in shares})
    return [
        compute_invoice(name, [share for share in shares if share.use.tenant == name], PRICES, None) for name in tenants
    ]


def closed(month: str, uses: Iterable[Use], adjustments: dict[str, list[InvoiceLine]] | None = None) -> ClosedMonth:
    period = month_period(month, BERLIN)
    billed = invoices(uses, period)
    adjusted = adjustments or {}
    billed += [Invoice(name, (), None) for name in sorted(adjusted.keys() - {invoice.tenant for invoice in billed})]
    bill = MonthlyBill(
        month=month,
        provider="Northlight",
        period=period,
        zone=BERLIN,
        currency="EUR",
        bills_unknown=False,
        commit="d" * 40,
        clusters=(RECORD,),
        invoices=tuple(billed),
        gpus_by_spec={},
    )
    return parse_month(dump_month(close_month(bill.with_adjustments(adjusted))))


def use(tenant: str, name: str, start: int, hours: int, spec: str = "l4-quarter") -> Use:
    """Return a use in October, by the hour in which it begins."""
    begin = OCTOBER.start + start * 3600
    end = begin + hours * 3600
    return used("2026-10-01T00:00", "2026-10-01T01:00")._replace(
        tenant=tenant, name=name, uid=f"{name}-{start}", offer=spec, start=begin, certain_end=end, end=end
    )


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
                    key = tenant, line.key.name, line.key.spec
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
