"""`allot bill`: computes the invoices of a month."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.billing_options import (
    Dimension,
    Month,
    billing_output_option,
    check_tenant,
    open_source,
    print_record_notes,
    read_tenant_record,
    record_options,
)
from allotment.cli.completers import complete_tenants
from allotment.cli.options import EXIT_WITH_WARNINGS, WholeNumber, is_quiet
from allotment.problems import OperationRefused, escape_unprintable

if TYPE_CHECKING:
    from allotment.billing.invoices import Invoice
    from allotment.billing.monthly_bill import MonthlyBill
    from allotment.services.billing.billing_source import BillingSource
    from allotment.services.billing.ledger_branch import LedgerBranch


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
@click.option(
    "--by",
    "dimensions",
    type=Dimension(),
    multiple=True,
    help="Add up the lines by tenant, cluster, spec or label:KEY. Give it again for more columns.",
)
@billing_output_option("table", "csv", "json", "markdown", "html", "svg", "focus")
@record_options
def command(
    *,
    tenant: str | None,
    month: str | None,
    explained: int | None,
    dimensions: tuple[str, ...],
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """Compute the invoice of each tenant for a month, from the recorded usage and the declared prices.

    A line is the use of a resource with the same spec, labels and price. Its amount is quantity × price. The lines of a resource
    with one spec and price are rounded together, half up.
    A unit has a price per hour, a storage or snapshot per GiB and month of 730 hours. A price applies from midnight of its first
    day in the billing time zone. The command reads the prices of the merged declarations, and changes nothing. A closed month
    is computed from the commits of its closing (`allot month close`). The next month has the adjustments of closed months.

    With -o focus, the command writes CSV in the format FOCUS 1.2, with a row for each line and day of the billing time zone.
    The column InvoiceId has a value only for a closed month, and x_IsFinal says whether the bill is final. With -o svg, the
    command draws the cost of each day, and the hours of physical GPUs by spec. -o html has the same plots.

    If nobody observed the cluster when a use ended, the time after the last observation is free, unless the platform declares
    `billing.unknown: Billed`.

    Until each cluster was observed to the end of the month, the bill is not final. A cluster that has never reported doesn't
    count. If a part of the record can't be read, a use has no price, or a price was merged after its day, the bill is not final,
    and the exit status is 4.

    \b
    Examples:
      allot bill
      allot bill --month 2026-11 -o csv
      allot bill studio-kite --month 2026-11 --by label:project
      allot bill studio-kite --month 2026-11
      allot bill studio-kite --month 2026-11 --explain 2
      allot bill studio-kite --month 2026-11 -o html > invoice.html
      allot bill --month 2026-11 -o svg > november.svg
      allot bill --month 2026-11 -o focus > focus.csv
    """
    from allotment.services.billing.closed_bill import compute_open_bill, fetch_ledger
    from allotment.services.billing.ledger_check import require_sound_ledger

    if explained is not None and tenant is None:
        raise click.UsageError("--explain needs a tenant: each invoice has its own lines")
    if explained is not None and style not in ("table", "json"):
        raise click.UsageError("--explain can't be combined with this output: use -o table or -o json")
    dimensions = tuple(dict.fromkeys(dimensions))
    _check_dimensions(dimensions, style, explained)
    source = open_source(repo, url)
    month = month or _last_month(source.zone)
    if month > f"{datetime.datetime.now(source.zone):%Y-%m}":
        raise OperationRefused(f"the month {month} has not begun")
    ledger = fetch_ledger(source)
    require_sound_ledger(source, ledger)
    if month in ledger.months:
        bill = _recompute(source, ledger, month)
        if tenant is not None:
            check_tenant(source, tenant, frozenset(invoice.tenant for invoice in bill.invoices))
        bill, notes = bill.of_tenant(tenant), tuple[str, ...]()
    else:
        bill, notes = compute_open_bill(source, ledger, month, tenant, read_tenant_record)
    if explained is not None:
        _check_line(bill.invoices[0], explained)
    if dimensions:
        _print_sums(bill, dimensions, style)
    else:
        _print(bill, tenant, style, explained)
    if not bill.is_final:
        click.echo(f"the bill of {bill.month} is not final", err=True)
    for note in notes:
        click.echo(escape_unprintable(note, 1000), err=True)
    has_problem = print_record_notes(bill.clusters, bill.period, bill.zone)
    has_unpriced = [_print_unpriced(invoice) for invoice in bill.invoices]
    if has_problem or any(has_unpriced) | _print_price_doubts(bill):
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _recompute(source: BillingSource, ledger: LedgerBranch, month: str) -> MonthlyBill:
    """Return the bill of a closed month. Raises OperationRefused if it has other totals than the ledger."""
    from allotment.services.billing.closed_bill import recompute_month

    bill = recompute_month(source.clone.root, ledger, month)
    if {invoice.tenant: invoice.total for invoice in bill.invoices} != ledger.read_closing(month).totals:
        raise OperationRefused(
            f"the closed month {month} has other totals in the ledger: `allot month verify {month}` shows the difference"
        )
    return bill


def _check_dimensions(dimensions: tuple[str, ...], style: str, explained: int | None) -> None:
    if dimensions and explained is not None:
        raise click.UsageError("--by can't be combined with --explain")
    if dimensions and style in ("markdown", "html", "svg", "focus"):
        raise click.UsageError("--by can't be combined with this output: use -o table, -o csv or -o json")
    refused = sorted({"day", "hour", "instance", "storage"} & set(dimensions))
    if refused:
        raise click.UsageError(
            f"a bill can't be added up by {refused[0]}: its lines are of resources; `allot usage` has this dimension"
        )


def _last_month(zone: datetime.tzinfo) -> str:
    first_day = datetime.datetime.now(zone).date().replace(day=1)
    return f"{first_day - datetime.timedelta(days=1):%Y-%m}"


def _check_line(invoice: Invoice, number: int) -> None:
    """Raise OperationRefused if there is no such line."""
    if number > len(invoice.lines):
        count = f"has {len(invoice.lines)} lines" if invoice.lines else "has no lines"
        raise OperationRefused(f"the invoice of {invoice.tenant} {count}: there is no line {number}")


def _print_unpriced(invoice: Invoice) -> bool:
    """Name the lines without a price on standard error. Return whether there are any."""
    from allotment.reports.invoice_pages import describe_unpriced_line

    for line in invoice.unpriced_lines:
        click.echo(escape_unprintable(f"{invoice.tenant}: {describe_unpriced_line(line)}", 1000), err=True)
    return bool(invoice.unpriced_lines)


def _print_price_doubts(bill: MonthlyBill) -> bool:
    """Name the prices that were merged after their day on standard error. Return whether there are any, or nobody knows."""
    from allotment.reports.record_notes import list_price_doubts

    doubts = list_price_doubts(bill)
    for text in doubts:
        click.echo(escape_unprintable(text, 1000), err=True)
    return bool(doubts)


def _print_sums(bill: MonthlyBill, dimensions: tuple[str, ...], style: str) -> None:
    """Print the sums of the lines of each group."""
    from allotment.billing.invoices import sum_lines

    sums = sum_lines(bill.invoices, dimensions)
    if style == "table":
        from allotment.capacity.pricing import format_money
        from allotment.cli.list_options import print_table
        from allotment.reports.invoice_columns import sum_columns

        print_table(sums, sum_columns(dimensions, bill.currency), wide=False)
        click.echo(f"Total {format_money(bill.total)} {bill.currency}")
        return
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs.bill import AmountOutput, bill_output

    amounts = tuple(AmountOutput(dict(zip(dimensions, group, strict=True)), amount) for group, amount in sums)
    if style == "json":
        click.echo(as_json(bill_output(bill, amounts=amounts)), nl=False)
        return
    from allotment.reports.csv_text import format_csv

    click.echo(format_csv(AmountOutput, amounts, dimensions, leading=_leading_columns(bill)), nl=False)


def _leading_columns(bill: MonthlyBill) -> dict[str, str]:
    """Return the columns that make a row of a CSV file independent of the file's name."""
    return {"month": bill.month, "currency": bill.currency, "isFinal": str(bill.is_final).lower()}


def _print(bill: MonthlyBill, tenant: str | None, style: str, explained: int | None) -> None:
    if style == "table":
        _print_tables(bill, tenant, explained)
    elif style in ("markdown", "html"):
        from allotment.reports.invoice_pages import render_html, render_markdown

        click.echo(render_markdown(bill) if style == "markdown" else render_html(bill), nl=False)
    elif style == "focus":
        from allotment.reports.focus import render_focus

        click.echo(render_focus(bill), nl=False)
    elif style == "svg":
        from allotment.reports.plots import render_svg

        click.echo(render_svg(bill), nl=False)
    elif style == "csv":
        from allotment.reports.csv_text import format_csv
        from allotment.reports.outputs.bill import InvoiceLineOutput, invoice_line_output

        lines = [invoice_line_output(invoice.tenant, line) for invoice in bill.invoices for line in invoice.lines]
        click.echo(format_csv(InvoiceLineOutput, lines, left_out=("parts",), leading=_leading_columns(bill)), nl=False)
    else:
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.bill import bill_output

        click.echo(as_json(bill_output(bill, explained)), nl=False)


def _print_tables(bill: MonthlyBill, tenant: str | None, explained: int | None) -> None:
    from allotment.capacity.pricing import format_money
    from allotment.cli.list_options import print_table
    from allotment.reports.invoice_columns import invoice_columns, line_columns, part_columns
    from allotment.reports.invoice_pages import list_evidence
    from allotment.reports.invoice_texts import format_budget, format_period, format_total, format_unknown

    if not is_quiet():
        state = ", closed" if bill.closed_in else "" if bill.is_final else ", not final"
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
        unknown = format_unknown(invoice, bill.currency, is_billed=bill.bills_unknown)
        click.echo(
            f"Total {format_total(bill, invoice)}, budget {format_budget(bill, invoice)}"
            + (f", not observed {unknown}" if unknown else "")
        )
    else:
        print_table(bill.invoices, invoice_columns(bill), wide=False)
        click.echo(f"Total {format_money(bill.total)} {bill.currency}")
    if not is_quiet():
        click.echo(", ".join(f"{name}: {commit[:12]}" for name, commit in list_evidence(bill)))
