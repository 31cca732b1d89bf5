"""`allot stock`: what stocks hold and keep warm."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.looking import check_known, clone_of, cluster_option, place_options, say_declared
from allotment.cli.options import day_of, is_quiet, output_option, recalled
from allotment.problems import counted

if TYPE_CHECKING:
    from allotment.observed.status import ClusterStatus
    from allotment.pipeline.report.joining import View
    from allotment.reports.outputs.stock import StockOutput
    from allotment.reports.stocks import StockRow


@click.group()
def command() -> None:
    """Show what stocks hold, keep warm, and how long a node takes to come.

    \b
    Examples:
      allot stock list
      allot stock list --cluster us-1
    """


@command.command("list")
@cluster_option
@output_option()
@place_options
def list_stocks(cluster: str | None, style: str, repo: Path | None, url: str | None) -> None:
    """Show a row a stock: its pool and nodes, its units, and how many of the free ones are kept warm.

    Units are as what is merged declares and holds them. WARM are the placeholders that keep free units ready, READY those
    that run, as the cluster's reporter says; a dash where nothing has reported it. An instance that waits for a storage holds
    its unit, and the placeholder stays until it starts. NODES are those of the pool, which its stocks share: a number that
    is always there, or as many as Karpenter buys when they are needed.

    COLD START is how long an instance that found no free unit waited until a node had room for it, by the last 20 such
    starts of the GPU spec in the cluster. Its image is pulled after that. A dash where nodes are always there.

    \b
    Examples:
      allot stock list
      allot stock list --cluster us-1
      allot stock list -o json
    """
    from allotment.pipeline.check.survey import survey
    from allotment.pipeline.report.joining import View
    from allotment.reports.sheets import show
    from allotment.reports.stocks import stock_rows, stocks_table

    view = View(clone_of(repo, url), "")  # of the clusters, and of no tenant
    check_known(view, "", "", cluster)
    source = view.declared.source
    check = survey(source, day_of(source, None), recall=recalled(view.clone.root, "-commit"))
    now = datetime.datetime.now(datetime.UTC)
    say_declared(view, now, cluster)
    if check.errors and not is_quiet():
        words = f"what is wrong counts for nothing here: {counted(len(check.errors), 'problem')}, see `allot validate`"
        click.echo(words, err=True)
    claims = [claim for part in check.parts.values() for claim in part.claims]
    rows = [row for row in stock_rows(check.offers, claims, view.now.clusters) if cluster in (None, row.cluster)]
    clusters = [status for status in view.now.clusters if cluster in (None, status.cluster)]
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(_output(view, rows, clusters, cluster)), nl=False)
    else:
        show(stocks_table(rows, clusters, now))


def _output(view: View, rows: list[StockRow], clusters: list[ClusterStatus], cluster: str | None) -> StockOutput:
    from allotment.observed.status import ClusterStatus
    from allotment.reports.outputs.status import DeclaredOutput
    from allotment.reports.outputs.stock import ReportedOutput, StockOutput, stock_rows_output
    from allotment.reports.tables import is_stale

    source, now = view.declared.source, datetime.datetime.now(datetime.UTC)
    commit_time = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
    statuses = {status.cluster: status for status in clusters}
    cluster_statuses = [
        statuses.get(name, ClusterStatus(name, "")) for name in sorted(view.keys) if cluster in (None, name)
    ]
    return StockOutput(
        declared=DeclaredOutput(
            view.declared.words, source.commit, commit_time.isoformat(), view.clone.differing(view.declared)
        ),
        clusters=tuple(
            ReportedOutput(
                status.cluster,
                status.observed_at or None,
                is_stale(status, now),
                view.now.troubles.get(status.cluster, ""),
            )
            for status in cluster_statuses
        ),
        stocks=stock_rows_output(rows),
    )
