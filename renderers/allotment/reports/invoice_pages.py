"""Renders the invoices of a month as Markdown and as HTML for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.billing.invoices import Invoice, InvoiceLine
from allotment.billing.monthly_bill import MonthlyBill
from allotment.reports.invoice_columns import line_columns
from allotment.reports.invoice_texts import format_budget, format_period, format_total, format_unknown
from allotment.reports.markdown import code_span, escape_markdown, markdown_table
from allotment.reports.plots import draw_plots
from allotment.reports.record_notes import describe_record, list_price_doubts
from allotment.reports.template_files import open_templates

_NUMERIC_COLUMNS = frozenset({"quantity", "price", "amount"})


def render_markdown(bill: MonthlyBill) -> str:
    """Return the invoices as Markdown, in a row."""
    return "\n".join(_render_invoice(bill, invoice) for invoice in bill.invoices)


def render_html(bill: MonthlyBill) -> str:
    """Return the invoices as an HTML page, which prints each invoice on a new sheet. It loads nothing and has no scripts."""
    tenant = bill.invoices[0].tenant if len(bill.invoices) == 1 else "all tenants"
    title = f"Invoice of {tenant} for {bill.month}"
    return open_templates().get_template("invoices.html.j2").render(title=title, bill=describe_bill(bill))


def describe_bill(bill: MonthlyBill) -> dict[str, Any]:
    """Return a bill as the texts that the template `invoice.j2` shows."""
    columns = line_columns(bill.currency)
    return {
        "month": bill.month,
        "period": format_period(bill.period, bill.zone),
        "currency": bill.currency,
        "heads": [column.head for column in columns],
        "numeric": [index for index, column in enumerate(columns) if column.name in _NUMERIC_COLUMNS],
        "is_final": bill.is_final,
        "closed_in": bill.closed_in,
        "evidence": list_evidence(bill),
        "invoices": [
            {
                "tenant": invoice.tenant,
                "total": format_total(bill, invoice),
                "budget": format_budget(bill, invoice, bill.currency),
                "unknown": format_unknown(invoice, bill.currency, is_billed=bill.bills_unknown),
                "notes": _list_notes(bill, invoice),
                "plots": draw_plots(bill, [invoice]),
                "rows": [[column.text(line) for column in columns] for line in invoice.lines],
            }
            for invoice in bill.invoices
        ],
    }


def list_evidence(bill: MonthlyBill) -> list[tuple[str, str]]:
    """Return the commits that the bill comes from, each with a description."""
    return [
        ("Prices and budgets", bill.commit),
        *(
            (f"Usage in {record.cluster}{'' if record.is_signed else ' (not signed)'}", record.commit)
            for record in bill.clusters
            if record.commit
        ),
        *([("Ledger", bill.closed_in)] if bill.closed_in else []),
    ]


def _render_invoice(bill: MonthlyBill, invoice: Invoice) -> str:
    columns = line_columns(bill.currency)
    lines = [
        f"# Invoice of {escape_markdown(invoice.tenant)} for {bill.month}",
        "",
        f"- Period: {escape_markdown(format_period(bill.period, bill.zone))}",
        f"- Total: {format_total(bill, invoice)}",
        f"- Budget: {format_budget(bill, invoice, bill.currency)}",
    ]
    if unknown := format_unknown(invoice, bill.currency, is_billed=bill.bills_unknown):
        lines.append(f"- Not observed: {unknown}")
    if bill.closed_in:
        lines.append(f"- Closed with commit {code_span(bill.closed_in)} of the ledger")
    if not bill.is_final:
        lines += ["", "**This invoice is not final.**"]
    if notes := _list_notes(bill, invoice):
        lines += ["", *(f"- {escape_markdown(note, 1000)}" for note in notes)]
    rows: list[Sequence[str]] = [
        [escape_markdown(column.text(line), 400) for column in columns] for line in invoice.lines
    ]
    rows.append(["**Total**", *[""] * (len(columns) - 2), f"**{format_total(bill, invoice)}**"])
    lines += ["", *markdown_table([column.head for column in columns], rows), "", "Evidence:", ""]
    lines += [f"- {escape_markdown(name)}: {code_span(commit)}" for name, commit in list_evidence(bill)]
    return "\n".join([*lines, ""])


def _list_notes(bill: MonthlyBill, invoice: Invoice) -> list[str]:
    """Return the limits of the records, and the lines without a price. The list of evidence says whether they are signed."""
    notes = [
        f"{record.cluster}: {note.text}"
        for record in bill.clusters
        if record.commit or record.problems
        for note in describe_record(record, bill.period, bill.zone, about_signature=False)
    ]
    return [*notes, *list_price_doubts(bill), *(describe_unpriced_line(line) for line in invoice.unpriced_lines)]


def describe_unpriced_line(line: InvoiceLine) -> str:
    """Return why a line has no price."""
    return f"line {line.number}: {line.key.offer or 'its spec'} has no price, or its first price starts later"
