"""The JSON output of `allot bill`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from allotment.billing.invoices import Invoice, InvoiceLine
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import format_moment
from allotment.output_part import Part
from allotment.reports.invoice_texts import quantity, quantity_unit
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.usage import (
    ClusterRecordOutput,
    PeriodOutput,
    cluster_record_outputs,
    period_output,
    round_number,
)
from allotment.reports.record_notes import list_price_doubts


class LinePartOutput(Part, frozen=True, kw_only=True):
    """A part of a use on a line. It is certain from `start` until `certainEnd`; until `end`, nobody observed it.

    `commit` is the commit of the status branch that proves it. `isOpen` says that the use continued at `end`.
    """

    uid: str
    node: str | None
    start: str
    certain_end: str
    end: str
    is_open: bool
    commit: str


class InvoiceLineOutput(Part, frozen=True, kw_only=True):
    """A line of an invoice: the use of a resource with the same spec, labels and price.

    `quantity` is in the unit of the price: unit hours, or GiB months of 730 hours. `amount` is quantity × price. The
    lines of a resource with one spec and price are rounded together, half up. `unknownQuantity` is the use that nobody observed, and `unknownAmount` is its price, a part of `amount` if
    `unknownIsBilled`. `price` is null if the use has no price. `parts` are empty without --explain. If
    `adjusts` is a month, the line is an adjustment of this closed month, and may be negative.
    """

    tenant: str
    line: int
    adjusts: str | None
    resource_kind: str
    name: str
    cluster: str
    spec: str | None
    labels: dict[str, str]
    quantity: Decimal
    quantity_unit: str
    price: Decimal | None
    amount: Decimal
    unknown_quantity: Decimal
    unknown_amount: Decimal
    parts: tuple[LinePartOutput, ...]


class InvoiceOutput(Part, frozen=True, kw_only=True):
    """The invoice of a tenant. `total` is the sum of the lines. `budget` is null if the tariff plan has none."""

    tenant: str
    total: Decimal
    unknown_total: Decimal
    budget: Decimal | None
    lines: tuple[InvoiceLineOutput, ...]


class AmountOutput(Part, frozen=True):
    """The sum of the lines of a group, which has a value for each dimension of --by."""

    group: dict[str, str]
    amount: Decimal


class BillOutput(Output, frozen=True, kw_only=True, tag="BillOutput"):
    """The invoices of a month.

    `isFinal` is false if a cluster was not observed until the end of the month, if a part of its record can't be read, if a line
    has no price, or if a price was merged after its day: `latePrices` describes each such change. A cluster that has never been
    reported doesn't count.
    `commit` is the commit of the declarations, which has the prices and budgets. `closedIn` is the commit of the ledger that
    closed the month; it is null for an open month. `sums` are those of each group of --by.
    """

    month: str
    period: PeriodOutput
    currency: str
    is_final: bool
    unknown_is_billed: bool
    commit: str
    closed_in: str | None
    clusters: tuple[ClusterRecordOutput, ...]
    late_prices: tuple[str, ...]
    invoices: tuple[InvoiceOutput, ...]
    sums: tuple[AmountOutput, ...]


def invoice_output(invoice: Invoice, explained: Iterable[int] = ()) -> InvoiceOutput:
    """Return the output of an invoice, with the parts of the explained lines."""
    numbers = set(explained)
    return InvoiceOutput(
        tenant=invoice.tenant,
        total=invoice.total,
        unknown_total=invoice.unknown_total,
        budget=invoice.budget,
        lines=tuple(
            invoice_line_output(invoice.tenant, line, has_parts=line.number in numbers) for line in invoice.lines
        ),
    )


def invoice_line_output(tenant: str, line: InvoiceLine, *, has_parts: bool = False) -> InvoiceLineOutput:
    """Return the output of a line."""
    key = line.key
    return InvoiceLineOutput(
        tenant=tenant,
        line=line.number,
        adjusts=line.adjusts or None,
        resource_kind=key.kind,
        name=key.name,
        cluster=key.cluster,
        spec=key.offer or None,
        labels=dict(sorted(key.labels.items())),
        quantity=round_number(quantity(key, line.weighted_seconds)),
        quantity_unit=quantity_unit(key),
        price=key.price,
        amount=line.amount,
        unknown_quantity=round_number(quantity(key, line.unknown_weighted_seconds)),
        unknown_amount=line.unknown_amount,
        parts=tuple(
            LinePartOutput(
                uid=part.use.uid,
                node=part.use.node or None,
                start=format_moment(part.start),
                certain_end=format_moment(part.certain_end),
                end=format_moment(part.end),
                is_open=part.continues,
                commit=part.use.commit,
            )
            for part in (line.parts if has_parts else ())
        ),
    )


def bill_output(bill: MonthlyBill, explained: int | None = None, amounts: tuple[AmountOutput, ...] = ()) -> BillOutput:
    """Return the output of a bill, with the parts of the line `explained` of its only invoice."""
    return BillOutput(
        month=bill.month,
        period=period_output(bill.period, bill.zone),
        currency=bill.currency,
        is_final=bill.is_final,
        unknown_is_billed=bill.bills_unknown,
        commit=bill.commit,
        closed_in=bill.closed_in or None,
        clusters=cluster_record_outputs(bill.clusters, bill.period),
        late_prices=tuple(list_price_doubts(bill)),
        invoices=tuple(invoice_output(invoice, () if explained is None else (explained,)) for invoice in bill.invoices),
        sums=amounts,
    )
