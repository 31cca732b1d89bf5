"""`allot usage`: shows the recorded use of units, storages and snapshots."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.billing_options import (
    Dimension,
    Moment,
    Month,
    billing_output_option,
    open_source,
    print_record_notes,
    read_tenant_record,
    record_options,
)
from allotment.cli.completers import complete_clusters, complete_tenants
from allotment.cli.options import EXIT_WITH_WARNINGS
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.billing.periods import Period
    from allotment.billing.recorded_use import UsageRecord


@click.command()
@click.argument("tenant", required=False, shell_complete=complete_tenants)
@click.option("--month", type=Month(), help="Only this month. Default: the current month.")
@click.option(
    "--from",
    "start",
    type=Moment(),
    help="The start: a day, or a time with a time zone. Default: the start of this month.",
)
@click.option("--to", "end", type=Moment(), help="The end: a day, which is not included, or a time. Default: now.")
@click.option(
    "--by",
    "dimensions",
    type=Dimension(),
    multiple=True,
    help="Add up by tenant, instance, spec, storage, cluster, day, hour or label:KEY. Give it again for more columns.",
)
@click.option("--cluster", metavar="NAME", shell_complete=complete_clusters, help="Only this cluster.")
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
    period = _find_period(month, start, end, source.zone)
    record = _only_cluster(read_tenant_record(source, tenant, period.start), cluster)
    _print(record, period, dimensions, style, source.zone)
    if print_record_notes(record.clusters, period, source.zone):
        raise click.exceptions.Exit(EXIT_WITH_WARNINGS)


def _find_period(month: str | None, start: str | None, end: str | None, zone: datetime.tzinfo) -> Period:
    """Return the period of the options. Raises click.UsageError if they exclude each other."""
    from allotment.billing.periods import Period, format_moment, month_period

    now = datetime.datetime.now(zone)
    if month is not None and (start or end):
        raise click.UsageError("--month can't be combined with --from or --to: give a month, or a start and an end")
    this_month = month_period(month or f"{now:%Y-%m}", zone)
    if month is not None:
        return this_month
    begin = _parse(start, zone) if start else this_month.start
    until = _parse(end, zone) if end else int(now.timestamp())
    if begin >= until:
        first, last = format_moment(begin, zone), format_moment(until, zone)
        raise click.UsageError(
            f"--from ({first}) must be before --to ({last}); by default, they are the start of this month and now"
        )
    return Period(begin, until)


def _parse(text: str, zone: datetime.tzinfo) -> int:
    from allotment.billing.periods import find_midnight

    moment = datetime.datetime.fromisoformat(text)
    return find_midnight(moment.date(), zone) if moment.tzinfo is None else int(moment.timestamp())


def _only_cluster(record: UsageRecord, cluster: str | None) -> UsageRecord:
    if cluster is None:
        return record
    clusters = {each.cluster for each in record.clusters}
    if cluster not in clusters:
        from allotment.cli.status_options import suggest_name

        raise OperationRefused(f"no cluster is named {quote_value(cluster)}{suggest_name(cluster, clusters)}")
    return record._replace(
        clusters=tuple(each for each in record.clusters if each.cluster == cluster),
        uses=tuple(use for use in record.uses if use.cluster == cluster),
    )


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
