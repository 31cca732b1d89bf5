"""Closed months of the sample, and a use of a tenant in one of them."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.billing.invoices import Invoice, InvoiceLine, compute_invoice
from allotment.billing.ledger import ClosedMonth, close_month, dump_month, parse_month
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import Period, month_period
from allotment.billing.recorded_use import ClusterRecord, Use
from allotment.billing.usage_totals import clip_uses
from tests.support.priced_uses import BERLIN, OCTOBER, PRICES, used

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
