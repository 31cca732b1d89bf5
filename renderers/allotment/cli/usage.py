"""`allot usage`: shows the recorded use of units, storages and snapshots."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.billing_options import (
    Dimension,
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
from allotment.cli.completers import complete_tenants
from allotment.cli.options import EXIT_WITH_WARNINGS

if TYPE_CHECKING:
    from allotment.billing.periods import Period
    from allotment.billing.recorded_use import UsageRecord


@click.command()
@click.argument("tenant", required=False, shell_complete=complete_tenants)
@period_options
@click.option(
    "--by",
    "dimensions",
    type=Dimension(),
    multiple=True,
    help="Add up by tenant, instance, spec, storage, cluster, day, hour or label:KEY. Give it again for more columns.",
)
@cluster_filter
@billing_output_option("table", "csv", "json")
@record_options
def command(
    *,
    tenant: str | None,
    month: str | None,
    start: str | None,
    end: str | None,
    dimensions: tuple[str, ...],
    cluster: str | None,
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """Show how long tenants used units, storages and snapshots, from the records of the reporters.

    A unit counts from the time when a pod got its node until the pod is gone; waiting is free. A storage counts from the time
    when its volume is bound. Each pod is an interval of its own, and another size or label begins another interval. Days start
    at midnight in the billing time zone. UNKNOWN is the time in which nobody observed how long the use lasted.

    Without --by, each row is an interval. With -o csv or json, an interval also has the commit of the status branch that proves
    it, and times are in UTC. With --by instance, only units are added up, and with --by storage only storages and snapshots.

    If a part of the record can't be read, the exit status is 4.

    \b
    Examples:
      allot usage
      allot usage studio-kite --month 2026-10
      allot usage --from 2026-11-01 --to 2026-11-08 --by tenant --by spec
      allot usage studio-kite --by label:film -o csv
      allot usage --by day -o json
    """
    dimensions = tuple(dict.fromkeys(dimensions))
    for pair in (("day", "hour"), ("instance", "storage")):
        if set(pair) <= set(dimensions):
            raise click.UsageError(f"--by {pair[0]} can't be combined with --by {pair[1]}")
    source = open_source(repo, url)
    period = find_period(month, start, end, source.zone)
    record = select_cluster(read_tenant_record(source, tenant, period.start), cluster)
    _print(record, period, dimensions, style, source.zone)
    if print_record_notes(record.clusters, period, source.zone):
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _print(record: UsageRecord, period: Period, dimensions: tuple[str, ...], style: str, zone: datetime.tzinfo) -> None:
    from allotment.billing.usage_totals import clip_uses, sum_shares
    from allotment.cli.list_options import print_table
    from allotment.reports.usage_columns import interval_columns, total_columns

    shares = clip_uses(record.uses, period)
    totals = sum_shares(shares, dimensions, period, zone) if dimensions else []
    if style == "table":
        if not (totals if dimensions else shares):
            click.echo("no use is recorded in this period", err=True)
        elif dimensions:
            print_table(totals, total_columns(dimensions), wide=False)
        else:
            print_table(shares, interval_columns(zone), wide=False)
        return
    from allotment.reports.outputs import as_json
    from allotment.reports.outputs import usage as outputs

    intervals = () if dimensions else tuple(map(outputs.usage_interval_output, shares))
    sums = tuple(outputs.usage_total_output(total, dimensions) for total in totals)
    if style == "csv":
        from allotment.reports.csv_text import format_csv

        text = (
            format_csv(outputs.UsageTotalOutput, sums, dimensions)
            if dimensions
            else format_csv(outputs.UsageIntervalOutput, intervals)
        )
        click.echo(text, nl=False)
        return
    output = outputs.UsageOutput(
        period=outputs.period_output(period, zone),
        clusters=outputs.cluster_record_outputs(record.clusters, period),
        intervals=intervals,
        totals=sums,
    )
    click.echo(as_json(output), nl=False)
