"""The JSON output of `allot month close`."""

from __future__ import annotations

from decimal import Decimal

from allotment.billing.monthly_bill import MonthlyBill
from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class ClosedInvoiceOutput(Part, frozen=True):
    """The total of a tenant's invoice, and the part of it that adjusts earlier months."""

    tenant: str
    total: Decimal
    adjustments: Decimal


class MonthCloseOutput(Output, frozen=True, kw_only=True, tag="MonthCloseOutput"):
    """The closing of a month.

    `commit` is the commit of the ledger; it is null with --dry-run, or if `refusals` or doubts prevent the closing. `unknowns`
    describe the time that nobody observed, which --accept-unknown accepts. `unsigned` names the clusters without a signed
    status, which --accept-unsigned accepts. `latePrices` describes the prices that were merged after their day, which
    --accept-late-prices accepts. `notes` name adjustments that can't be computed.
    """

    month: str
    currency: str
    total: Decimal
    commit: str | None
    tag: str | None
    invoices: tuple[ClosedInvoiceOutput, ...]
    refusals: tuple[str, ...]
    unknowns: tuple[str, ...]
    unsigned: tuple[str, ...]
    late_prices: tuple[str, ...]
    notes: tuple[str, ...]


def list_closed_invoices(bill: MonthlyBill) -> tuple[ClosedInvoiceOutput, ...]:
    """Return the totals of the invoices of a bill."""
    return tuple(
        ClosedInvoiceOutput(
            invoice.tenant,
            invoice.total,
            sum((line.amount for line in invoice.lines if line.adjusts), Decimal("0.00")),
        )
        for invoice in bill.invoices
    )
