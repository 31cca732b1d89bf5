"""`allot cost`: shows the cost of the declared resources, and the forecast of the month."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.billing_options import (
    Dimension,
    billing_output_option,
    open_source,
    print_record_notes,
    read_tenant_record,
    record_options,
)
from allotment.cli.completers import complete_tenants
from allotment.cli.options import EXIT_WITH_WARNINGS
from allotment.problems import escape_unprintable

if TYPE_CHECKING:
    from allotment.billing.declared_costs import DeclaredCosts


_TIME_DIMENSIONS = ("day", "hour")


@click.command()
@click.argument("tenant", required=False, shell_complete=complete_tenants)
@click.option(
    "--by",
    "dimensions",
    type=Dimension(*_TIME_DIMENSIONS),
    multiple=True,
    help="Add up by tenant, cluster, spec, instance, storage or label:KEY. Give it again for more columns.",
)
@billing_output_option("table", "csv", "json")
@record_options
def command(*, tenant: str | None, dimensions: tuple[str, ...], style: str, repo: Path | None, url: str | None) -> None:
    """Show the cost of the declared resources in a month of 730 hours, and the forecast of the current month.

    Without TENANT, each row is a tenant; with TENANT, each row is a running instance, a storage or a snapshot. The command reads
    the merged declarations, and takes the prices of today. `allot plan` shows the cost of a change.

    The forecast of the month is the cost of the recorded usage so far, and the cost of the declared resources until the end of
    the month. The command warns about a forecast of 80 % of the budget or more.

    If a part of the record can't be read, the exit status is 4.

    \b
    Examples:
      allot cost
      allot cost studio-kite
      allot cost --by cluster --by spec
      allot cost studio-kite --by label:project -o json
      allot cost -o csv
    """
    from allotment.billing.periods import Period
    from allotment.cli.list_options import current_time
    from allotment.services.billing.cost_reader import compute_costs
    from allotment.services.billing.month_forecasts import find_current_month

    dimensions = tuple(dict.fromkeys(dimensions))
    _check_dimensions(dimensions)
    source = open_source(repo, url)
    billing = source.platform.spec.billing
    month = find_current_month(billing, current_time())
    record = read_tenant_record(source, tenant, month.period.start)
    declared = source.declared.source
    tenants = (
        {tenant} if tenant is not None else {*declared.list_folders("tenants"), *(use.tenant for use in record.uses)}
    )
    costs = compute_costs(declared, billing, record, month, tenants)
    _print(costs, tenant, dimensions, style)
    _print_warnings(costs)
    if print_record_notes(costs.clusters, Period(month.period.start, month.now), source.zone):
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _check_dimensions(dimensions: tuple[str, ...]) -> None:
    refused = sorted({*_TIME_DIMENSIONS} & set(dimensions))
    if refused:
        raise click.UsageError(
            f"declared costs have no {refused[0]}: `allot usage --by {refused[0]}` adds up the recorded usage"
        )
    if {"instance", "storage"} <= set(dimensions):
        raise click.UsageError("--by instance can't be combined with --by storage")


def _print(costs: DeclaredCosts, tenant: str | None, dimensions: tuple[str, ...], style: str) -> None:
    from allotment.billing.declared_costs import sum_costs

    sums = sum_costs(costs.resources, dimensions) if dimensions else []
    if style == "table":
        _print_table(costs, sums, tenant, dimensions)
        return
    from allotment.reports.outputs import cost as outputs
    from allotment.reports.outputs.bill import AmountOutput
    from allotment.reports.outputs.usage import round_number

    amounts = tuple(
        AmountOutput(dict(zip(dimensions, group, strict=True)), round_number(amount)) for group, amount in sums
    )
    if style == "csv":
        from allotment.reports.csv_text import format_csv

        leading = {"asOf": str(costs.day), "currency": costs.currency}
        if dimensions:
            text = format_csv(AmountOutput, amounts, dimensions, leading=leading)
        elif tenant is not None:
            text = format_csv(
                outputs.ResourceCostOutput, map(outputs.resource_cost_output, costs.resources), leading=leading
            )
        else:
            rows = map(outputs.tenant_cost_output, costs.tenants)
            text = format_csv(outputs.TenantCostOutput, rows, leading={"month": costs.month, **leading})
        click.echo(text, nl=False)
        return
    from allotment.reports.outputs import as_json

    click.echo(as_json(outputs.cost_output(costs, amounts)), nl=False)


def _print_table(
    costs: DeclaredCosts,
    sums: list[tuple[tuple[str, ...], Decimal]],
    tenant: str | None,
    dimensions: tuple[str, ...],
) -> None:
    from allotment.capacity.pricing import format_money
    from allotment.cli.list_options import print_table
    from allotment.reports.cost_columns import describe_forecast, resource_columns, tenant_columns
    from allotment.reports.invoice_columns import sum_columns
    from allotment.rules.spending import total_cost

    if dimensions:
        print_table(sums, sum_columns(dimensions, f"{costs.currency}/MONTH"), wide=False)
    elif tenant is not None:
        print_table(costs.resources, resource_columns(costs.currency), wide=False)
    else:
        print_table(costs.tenants, tenant_columns(costs.currency, costs.month), wide=False)
    total = total_cost(each.spending for each in costs.tenants)
    if total is not None:
        forecasts = [each.forecast.after for each in costs.tenants if each.forecast is not None]
        ahead = (
            f", forecast {format_money(sum(forecasts, Decimal(0)))} for {costs.month}"
            if forecasts and tenant is None
            else ""
        )
        click.echo(f"Total {format_money(total)} {costs.currency} a month of 730 hours{'' if dimensions else ahead}")
    if tenant is not None and not dimensions and (forecast := costs.tenants[0].forecast):
        click.echo(describe_forecast(forecast, costs.currency))


def _print_warnings(costs: DeclaredCosts) -> None:
    """Print to standard error the forecasts near or over a budget, and the resources without a known cost."""
    from allotment.reports.cost_columns import describe_gaps, describe_near_budget

    for each in costs.tenants:
        notes = describe_gaps(each)
        if each.forecast is not None and (warning := describe_near_budget(each.forecast)):
            notes.append(warning)
        for note in notes:
            click.echo(escape_unprintable(f"{each.spending.tenant}: {note}", 1000), err=True)
