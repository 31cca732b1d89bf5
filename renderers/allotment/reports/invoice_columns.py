"""Defines the columns of invoices, of the lines of an invoice, and of the parts of a line."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from itertools import count

from allotment.billing.invoices import Invoice, InvoiceLine
from allotment.billing.monthly_bill import MonthlyBill
from allotment.billing.periods import format_moment
from allotment.billing.usage_totals import Share, to_hours
from allotment.capacity.pricing import format_money
from allotment.reports.invoice_texts import (
    format_budget,
    format_labels,
    format_line_amount,
    format_price,
    format_quantity,
    format_resource,
)
from allotment.reports.list_table import ListColumn
from allotment.reports.outputs.month_list import ClosedMonthOutput
from allotment.reports.usage_columns import format_amount, format_hours, group_columns


def invoice_columns(bill: MonthlyBill) -> list[ListColumn[Invoice]]:
    """Return the columns of a list of invoices."""
    return [
        ListColumn("tenant", lambda invoice: invoice.tenant),
        ListColumn("lines", lambda invoice: str(len(invoice.lines))),
        ListColumn(
            "amount",
            lambda invoice: format_money(invoice.total) if bill.is_known(invoice) else "unknown",
            title=bill.currency,
        ),
        ListColumn("budget", lambda invoice: format_budget(bill, invoice)),
        ListColumn(
            "not-observed", lambda invoice: format_money(invoice.unknown_total) if invoice.unknown_total else "-"
        ),
    ]


def line_columns(currency: str) -> list[ListColumn[InvoiceLine]]:
    """Return the columns of the lines of an invoice."""
    return [
        ListColumn("line", lambda line: str(line.number)),
        ListColumn("resource", format_resource),
        ListColumn("cluster", lambda line: line.key.cluster),
        ListColumn("spec", lambda line: line.key.offer or "-"),
        ListColumn("labels", lambda line: format_labels(line.key)),
        ListColumn("quantity", lambda line: format_quantity(line.key, line.weighted_seconds)),
        ListColumn("price", lambda line: format_price(line.key)),
        ListColumn("amount", format_line_amount, title=currency),
    ]


def part_columns(zone: datetime.tzinfo) -> list[ListColumn[Share]]:
    """Return the columns of the parts of a line, with times in a time zone."""
    numbers = count(1)
    return [
        ListColumn("#", lambda part: str(next(numbers))),
        ListColumn("amount", lambda part: format_amount(part.use)),
        ListColumn("from", lambda part: format_moment(part.start, zone)),
        ListColumn("until", lambda part: format_moment(part.end, zone) + (" (continues)" if part.continues else "")),
        ListColumn("hours", lambda part: format_hours(to_hours(part.certain_end - part.start))),
        ListColumn("unknown", lambda part: format_hours(to_hours(part.end - part.certain_end))),
        ListColumn("node", lambda part: part.use.node or "-"),
        ListColumn("commit", lambda part: part.use.commit[:12]),
        ListColumn("uid", lambda part: part.use.uid),
    ]


def sum_columns(dimensions: Sequence[str], currency: str) -> list[ListColumn[tuple[tuple[str, ...], Decimal]]]:
    """Return the columns of the sums of lines: a column for each dimension, and the amount."""
    return [*group_columns(dimensions), ListColumn("amount", lambda row: format_money(row[1]), title=currency)]


def closed_month_columns() -> list[ListColumn[ClosedMonthOutput]]:
    """Return the columns of a list of closed months."""
    return [
        ListColumn("month", lambda row: row.month),
        ListColumn("total", lambda row: f"{format_money(row.total)} {row.currency}"),
        ListColumn("invoices", lambda row: str(row.invoice_count)),
        ListColumn("commit", lambda row: row.commit[:12]),
    ]
