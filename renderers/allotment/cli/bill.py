"""`allot bill`: computes the invoices of a month."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.billing_options import (
    Month,
    billing_output_option,
    open_billing_source,
    print_record_notes,
    read_record,
    record_options,
)
from allotment.cli.completers import complete_tenants
from allotment.cli.options import EXIT_WITH_WARNINGS, WholeNumber, is_quiet
from allotment.problems import OperationRefused

if TYPE_CHECKING:
    from allotment.billing.invoices import Invoice, InvoiceLine
    from allotment.billing.monthly_bill import MonthlyBill


@click.command()
@click.argument("tenant", required=False, shell_complete=complete_tenants)
@click.option("--month", type=Month(), help="The month. Default: the last month.")
@click.option(
    "--explain",
    "explained",
    type=WholeNumber(1),
    metavar="LINE",
    help="Show the intervals, the price and the commits behind a line of the invoice.",
)
@billing_output_option("table", "csv", "json", "markdown", "html")
@record_options
def command(
    *, tenant: str | None, month: str | None, explained: int | None, style: str, repo: Path | None, url: str | None
) -> None:
    """Compute the invoice of each tenant for a month, from the recorded usage and the declared prices.

    A line is the use of a resource with the same spec, labels and price. Its amount is quantity × price, rounded once, half up.
    A unit has a price per hour, a storage or snapshot per GiB and month of 730 hours. A price applies from midnight of its first
    day in the billing time zone. The command reads the prices of the merged declarations, and changes nothing.

    If nobody observed the cluster when a use ended, the time after the last observation is free, unless the platform declares
    `billing.unknown: Billed`.

    Until a cluster was observed to the end of the month, the bill is not final. If a part of the record can't be read, or a use
    has no price, the exit status is 4.

    \b
    Examples:
      allot bill
      allot bill --month 2026-11 -o csv
      allot bill studio-kite --month 2026-11
      allot bill studio-kite --month 2026-11 --explain 2
      allot bill studio-kite --month 2026-11 -o html > invoice.html
    """
    from allotment.services.reporter.bill_reader import compute_bill

    if explained is not None and tenant is None:
        raise click.UsageError("--explain needs a tenant: each invoice has its own lines")
    if explained is not None and style not in ("table", "json"):
        raise click.UsageError("--explain can't be combined with this output: use -o table or -o json")
    source = open_billing_source(repo, url)
    month = month or _last_month(source.zone)
    from allotment.billing.periods import month_period

    record = read_record(source, tenant, month_period(month, source.zone).start)
    billing = source.platform.spec.billing
    bill = compute_bill(source.declared.source, billing, source.zone, month, record, tenant)
    if explained is not None:
        _find_line(bill.invoices[0], explained)
    _print(bill, tenant, style, explained)
    has_problem = print_record_notes(bill.clusters, bill.period, bill.zone)
    if any(_print_unpriced(invoice) for invoice in bill.invoices) or has_problem:
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _last_month(zone: datetime.tzinfo) -> str:
    first_day = datetime.datetime.now(zone).date().replace(day=1)
    return f"{first_day - datetime.timedelta(days=1):%Y-%m}"


def _find_line(invoice: Invoice, number: int) -> InvoiceLine:
    """Return a line. Raises OperationRefused if there is no such line."""
    if number > len(invoice.lines):
        count = f"has {len(invoice.lines)} lines" if invoice.lines else "has no lines"
        raise OperationRefused(f"the invoice of {invoice.tenant} {count}: there is no line {number}")
    return invoice.lines[number - 1]


def _print_unpriced(invoice: Invoice) -> bool:
    """Name the lines without a price on standard error. Return whether there are any."""
    numbers = [str(line.number) for line in invoice.lines if line.key.price is None]
    if numbers:
        click.echo(
            f"{invoice.tenant}: no price applies to line {', '.join(numbers)}: the catalog lacks its spec, or its first price"
            " starts later",
            err=True,
        )
    return bool(numbers)


def _print(bill: MonthlyBill, tenant: str | None, style: str, explained: int | None) -> None:
    if style == "table":
        _print_tables(bill, tenant, explained)
    elif style in ("markdown", "html"):
        from allotment.reports.invoice_pages import render_html, render_markdown

        click.echo(render_markdown(bill) if style == "markdown" else render_html(bill), nl=False)
    elif style == "csv":
        from allotment.reports.csv_text import format_csv
        from allotment.reports.outputs.bill import InvoiceLineOutput, invoice_line_output

        lines = [invoice_line_output(invoice.tenant, line) for invoice in bill.invoices for line in invoice.lines]
        click.echo(format_csv(InvoiceLineOutput, lines, left_out=("parts",)), nl=False)
    else:
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.bill import bill_output

        click.echo(as_json(bill_output(bill, explained)), nl=False)


def _print_tables(bill: MonthlyBill, tenant: str | None, explained: int | None) -> None:
    from allotment.capacity.pricing import format_money
    from allotment.cli.list_options import print_table
    from allotment.reports.invoice_columns import invoice_columns, line_columns, part_columns
    from allotment.reports.invoice_pages import list_evidence
    from allotment.reports.invoice_texts import format_budget, format_period

    if not is_quiet():
        state = "" if bill.is_final else ", not final"
        whose = f"Invoice of {tenant}" if tenant is not None else "Invoices"
        click.echo(f"{whose} for {bill.month}{state} ({format_period(bill.period, bill.zone)})")
    if explained is not None:
        line = bill.invoices[0].lines[explained - 1]
        print_table([line], line_columns(bill.currency), wide=False)
        click.echo()
        print_table(line.parts, part_columns(bill.zone), wide=False)
    elif tenant is not None:
        invoice = bill.invoices[0]
        print_table(invoice.lines, line_columns(bill.currency), wide=False)
        click.echo(f"Total {format_money(invoice.total)} {bill.currency}, budget {format_budget(invoice)}")
    else:
        print_table(bill.invoices, invoice_columns(bill.currency), wide=False)
        click.echo(f"Total {format_money(bill.total)} {bill.currency}")
    if not is_quiet():
        click.echo(", ".join(f"{name}: {commit[:12]}" for name, commit in list_evidence(bill)))
