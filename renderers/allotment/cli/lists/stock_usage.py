"""`allot stock usage`: shows how long the units of stocks were sold, reserved and idle."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.billing_options import (
    billing_output_option,
    cluster_filter,
    find_period,
    open_source,
    period_options,
    print_record_notes,
    read_tenant_record,
    record_options,
    select_cluster,
)
from allotment.cli.options import EXIT_WITH_WARNINGS


@click.command("usage")
@period_options
@cluster_filter
@billing_output_option("table", "csv", "json")
@record_options
def command(
    *,
    month: str | None,
    start: str | None,
    end: str | None,
    cluster: str | None,
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """Show how long the units of stocks were sold, reserved and idle, from the records of the reporters.

    The units that a tenant uses count in the stocks reserved for it first, and then in the shared stocks. RESERVED are the unused
    units of reserved stocks, and IDLE those of shared stocks. OVERSOLD are units in use beyond the stocks. All columns are unit
    hours. The time in which nobody observed a use or a stock doesn't count.

    If a part of the record can't be read, the exit status is 4.

    \b
    Examples:
      allot stock usage
      allot stock usage --month 2026-10 --cluster eu-1
      allot stock usage --from 2026-11-01 --to 2026-11-08 -o csv
    """
    from allotment.billing.capacity_totals import sum_capacity

    source = open_source(repo, url)
    period = find_period(month, start, end, source.zone)
    record = select_cluster(read_tenant_record(source, None, period.start), cluster)
    totals = sum_capacity(record.stocks, record.uses, period)
    if style == "table":
        from allotment.cli.list_options import print_table
        from allotment.reports.usage_columns import capacity_columns

        if totals:
            print_table(totals, capacity_columns(), wide=False)
        else:
            click.echo("no stock is recorded in this period", err=True)
    else:
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.stock_usage import CapacityOutput, StockUsageOutput, capacity_output
        from allotment.reports.outputs.usage import cluster_record_outputs, period_output

        rows = tuple(map(capacity_output, totals))
        if style == "csv":
            from allotment.reports.csv_text import format_csv

            click.echo(format_csv(CapacityOutput, rows), nl=False)
        else:
            output = StockUsageOutput(
                period=period_output(period, source.zone),
                clusters=cluster_record_outputs(record.clusters, period),
                capacity=rows,
            )
            click.echo(as_json(output), nl=False)
    if print_record_notes(record.clusters, period, source.zone):
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)
