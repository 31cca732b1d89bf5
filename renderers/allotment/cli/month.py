"""`allot month`: closes the bill of a month, and lists and verifies closed months."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.billing_options import Month, open_source, record_options
from allotment.cli.options import output_option
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import OperationRefused, escape_unprintable, pluralize

if TYPE_CHECKING:
    from allotment.billing.monthly_bill import MonthlyBill
    from allotment.reports.outputs.month_close import MonthCloseOutput
    from allotment.reports.outputs.month_verify import MonthVerifyOutput
    from allotment.services.billing.billing_source import BillingSource


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Close the bill of a month, list the closed months, and verify a closed month.

    \b
    Examples:
      allot month list
      allot month close 2026-11 --signing-key ~/.ssh/billing
      allot month verify 2026-11
    """


@command.command("close")
@click.argument("month", type=Month())
@click.option(
    "--signing-key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The private SSH key that signs the tag. It belongs to spec.billing.publicKey of the platform. Default: the signing"
    " key of Git (user.signingKey).",
)
@click.option(
    "--accept-unknown",
    "accepts_unknown",
    is_flag=True,
    help="Close the month although nobody observed some of its time.",
)
@click.option(
    "--accept-unsigned",
    "accepts_unsigned",
    is_flag=True,
    help="Close the month although a cluster declares no key of its reporter, so that others can write its usage.",
)
@click.option(
    "--accept-late-prices",
    "accepts_late_prices",
    is_flag=True,
    help="Close the month although a price or a setting of billing was merged after the time that it applies to.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@output_option()
@record_options
def close(
    *,
    month: str,
    signing_key: Path | None,
    accepts_unknown: bool,
    accepts_unsigned: bool,
    accepts_late_prices: bool,
    dry_run: bool,
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """Write the invoices of a month and their evidence to the branch `ledger` of origin, and sign the tag `bill/MONTH`.

    The command refuses a month that has not ended, of which a part of the record can't be read, or with a use without a price.
    It also refuses each kind of doubt, until an option accepts it: time that nobody observed (--accept-unknown), a cluster
    without a signed status (--accept-unsigned), and prices that were merged after their day (--accept-late-prices).
    The message of the tag lists the accepted doubts.
    Months are closed in their order. The platform must declare the key of the tag, spec.billing.publicKey.

    A closed month never changes. If later knowledge changes its amounts, the next closing has the differences as adjustments.

    Exit status: 0 closed, or with --dry-run nothing prevents the closing; 1 refused; 2 the command is wrong, the month is
    closed already, origin doesn't answer, or another closing was faster.

    \b
    Examples:
      allot month close 2026-11 --dry-run
      allot month close 2026-11 --signing-key ~/.ssh/billing
      allot month close 2026-11 --accept-unknown -o json
    """
    from allotment.cli.list_options import current_time
    from allotment.services.billing.closed_bill import fetch_ledger
    from allotment.services.billing.month_closing import draft_closing, write_month

    source = _open_source_with_origin(repo, url)
    ledger = fetch_ledger(source)
    draft = draft_closing(source, ledger, month, int(current_time().timestamp()))
    output = draft.output
    doubts = {
        "--accept-unknown": () if accepts_unknown else output.unknowns,
        "--accept-unsigned": () if accepts_unsigned else output.unsigned,
        "--accept-late-prices": () if accepts_late_prices else output.late_prices,
    }
    needed = [option for option, texts in doubts.items() if texts]
    is_refused = bool(output.refusals or needed)
    if not is_refused and not dry_run:
        if signing_key is not None:
            source.clone.repository.sign_with(signing_key, keep=False)
        output = write_month(source, ledger, draft)
    _print_closing(output, draft.bill, style)
    if is_refused:
        accept = (
            ""
            if output.refusals
            else f": {' '.join(needed)} {'closes' if len(needed) == 1 else 'close'} it nevertheless"
        )
        click.echo(f"the month {month} can't be closed{accept}", err=True)
        raise click.exceptions.Exit(1)


@command.command("list")
@output_option()
@record_options
def list_months(*, style: str, repo: Path | None, url: str | None) -> None:
    """List the closed months with their totals, from the branch `ledger` and the tags `bill/*` of origin.

    The command refuses a ledger that somebody else changed. `allot month verify` computes a month again.

    \b
    Examples:
      allot month list
      allot month list -o json
    """
    from allotment.reports.outputs.month_list import ClosedMonthOutput, MonthListOutput
    from allotment.services.billing.closed_bill import fetch_ledger
    from allotment.services.billing.ledger_check import require_sound_ledger

    source = _open_source_with_origin(repo, url)
    ledger = fetch_ledger(source)
    require_sound_ledger(source, ledger)
    closings = [ledger.read_closing(month) for month in ledger.months]
    rows = tuple(
        ClosedMonthOutput(
            month=closing.month,
            total=closing.total,
            currency=closing.currency,
            invoice_count=len(closing.totals),
            commit=ledger.closings[closing.month],
        )
        for closing in closings
    )
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(MonthListOutput(months=rows)), nl=False)
    elif rows:
        from allotment.cli.list_options import print_table
        from allotment.reports.invoice_columns import closed_month_columns

        print_table(rows, closed_month_columns(), wide=False)
    else:
        click.echo("no month is closed", err=True)


@command.command("verify")
@click.argument("month", type=Month())
@output_option()
@record_options
def verify(*, month: str, style: str, repo: Path | None, url: str | None) -> None:
    """Compute a closed month again, and compare it with the ledger byte by byte.

    The command fetches the branch `ledger` and the tag `bill/MONTH` from origin. It reads the prices and the usage from the commits
    that the closing names, so each clone, on each machine, has the same result. It also checks that the tag is signed with the
    spec.billing.publicKey that the platform declared then, that the prices were merged, and that nobody changed the month later.

    Exit status: 0 verified, 1 not verified, 2 the command is wrong, or the month is not closed or can't be read.

    \b
    Examples:
      allot month verify 2026-11
      allot month verify 2026-11 -o json
    """
    from allotment.services.billing.closed_bill import fetch_ledger
    from allotment.services.billing.month_verification import verify_month

    source = _open_source_with_origin(repo, url)
    verification = verify_month(source, fetch_ledger(source), month)
    _print_verification(verification, style)
    if not verification.is_verified:
        raise click.exceptions.Exit(1)


def _open_source_with_origin(repo: Path | None, url: str | None) -> BillingSource:
    source = open_source(repo, url)
    if not source.clone.has_origin:
        remedy = source.clone.repository.git.origin_remedy
        raise OperationRefused(f"the clone has no remote named origin, which has the ledger: run {remedy}")
    return source


def _print_closing(output: MonthCloseOutput, bill: MonthlyBill, style: str) -> None:
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(output), nl=False)
        return
    from allotment.capacity.pricing import format_money
    from allotment.cli.list_options import print_table
    from allotment.reports.invoice_columns import invoice_columns

    for text in (*output.refusals, *output.unknowns, *output.unsigned, *output.late_prices, *output.notes):
        click.echo(escape_unprintable(text, 1000), err=True)
    print_table(bill.invoices, invoice_columns(bill), wide=False)
    total = f"{format_money(bill.total)} {bill.currency}"
    if output.commit is None:
        click.echo(f"Total {total}; {bill.month} is not closed")
    else:
        click.echo(f"Total {total}; closed {bill.month} with commit {output.commit[:12]} and tag {output.tag}")


def _print_verification(verification: MonthVerifyOutput, style: str) -> None:
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(verification), nl=False)
        return
    for problem in verification.problems:
        click.echo(escape_unprintable(problem, 1000), err=True)
    if (difference := verification.difference) is not None:
        click.echo(f"{verification.month}/{difference.path}:{difference.line} differs:")
        click.echo(escape_unprintable(f"- {difference.ledger}", 1000))
        click.echo(escape_unprintable(f"+ {difference.computed}", 1000))
    if verification.is_verified:
        files = pluralize(verification.file_count, "file")
        click.echo(f"{verification.month} is verified: {files}, {verification.total} {verification.currency}")
    else:
        from allotment.services.billing.ledger_check import RESTORE_ADVICE

        click.echo(f"{verification.month} is not as it was closed. {RESTORE_ADVICE}", err=True)
