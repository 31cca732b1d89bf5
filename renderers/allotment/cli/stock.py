"""`allot stock`: shows the units and the warm placeholders of stocks, finds free units, and adds and removes stocks."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.cli.edit_commands import stock_verbs
from allotment.cli.list_options import (
    MEMORY_FILTER,
    MODEL_FILTER,
    SPEC_FILTER,
    UNIT_PRICE_FILTER,
    add_options,
    build_filter,
)
from allotment.cli.lists import stock_search, stock_usage
from allotment.cli.options import choose_day, create_cache_opener, is_quiet, output_option
from allotment.cli.status_options import (
    build_declared_output,
    clone_options,
    cluster_option,
    list_cluster_statuses,
    open_clone,
    print_declared_commit,
)
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import pluralize

if TYPE_CHECKING:
    from allotment.reports.outputs.stock import StockOutput
    from allotment.reports.stock_table import StockRowOutput
    from allotment.services.status_view.status_view import StatusView


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Show the units, warm placeholders and cold start times of stocks, find free units, and add and remove stocks.

    \b
    Examples:
      allot stock list
      allot stock search --min-memory 40Gi --free 4
      allot stock list --cluster us-1
      allot stock usage --month 2026-10
      allot stock add eu-1/l4-whole-uni --spec l4-whole --count 2 --tenant uni-lab
    """


for _verb in stock_verbs.COMMANDS:
    command.add_command(_verb)
command.add_command(stock_search.command)
command.add_command(stock_usage.command)


@command.command("list")
@cluster_option
@add_options(SPEC_FILTER, MODEL_FILTER, MEMORY_FILTER, UNIT_PRICE_FILTER)
@output_option("wide", "yaml", "name")
@clone_options
def list_stocks(*, cluster: str | None, style: str, repo: Path | None, url: str | None, **filters: Any) -> None:
    """Show a row for each stock: its pool and nodes, its units, and the number of warm units.

    The merged declarations determine the units. WARM is the number of placeholders that keep free units ready. READY is the
    number of running placeholders that the reporter of the cluster reports; a dash means no report. An instance that waits
    for a storage holds its unit, and the placeholder stays until the instance starts. NODES are the nodes of the pool, which
    its stocks share: a fixed number, or a range that Karpenter buys on demand.

    COLD START is the time that an instance without a free unit waited for a node, from the last 20 such starts of the GPU spec
    in the cluster. The image pull comes after that time. A dash means that the nodes always exist.

    `-o wide` adds the GPU model, the memory of each GPU or GPU slice, and the price of a unit per hour.

    \b
    Examples:
      allot stock list
      allot stock list --gpu nvidia-l4 -o wide
      allot stock list --cluster us-1
      allot stock list -o json
    """
    from allotment.capacity.offers import read_offers
    from allotment.observed.row_filters import check_offer_names, matches_offer
    from allotment.reports.sheets import print_output
    from allotment.reports.stock_table import stock_rows, stocks_table
    from allotment.services.check.check_options import CheckOptions
    from allotment.services.check.repository_check import check_repository
    from allotment.services.status_view.name_check import check_names
    from allotment.services.status_view.status_view import StatusView

    view = StatusView(open_clone(repo, url), "")  # with an empty tenant name, the view reads no tenants
    check_names(view, "", "", cluster)
    source = view.declared_commit.source
    check = check_repository(
        source, choose_day(source, None), CheckOptions(open_cache=create_cache_opener(view.clone.root, "-commit"))
    )
    now = datetime.datetime.now(datetime.UTC)
    print_declared_commit(view, now, cluster)
    if check.errors and not is_quiet():
        message = (
            f"invalid declarations are ignored here: {pluralize(len(check.errors), 'problem')}, see `allot validate`"
        )
        click.echo(message, err=True)
    claims = [claim for part in check.tally_entries.values() for claim in part.claims]
    offers, conditions = read_offers(check.catalog), build_filter(**filters)
    check_offer_names(conditions, offers, view.reporter_keys)
    rows = [
        row
        for row in stock_rows(check.catalog, claims, view.reported_status.clusters)
        if cluster in (None, row.cluster) and matches_offer(row.gpu_spec, conditions, offers)
    ]
    clusters = [status for status in view.reported_status.clusters if cluster in (None, status.cluster)]
    if style in ("json", "yaml"):
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.yaml_form import as_yaml

        click.echo((as_json if style == "json" else as_yaml)(_build_output(view, rows, cluster, now)), nl=False)
    elif style == "name":
        click.echo("".join(f"{row.cluster}/{row.name}\n" for row in rows), nl=False)
    else:
        print_output(stocks_table(rows, clusters, now, offers if style == "wide" else None))


def _build_output(
    view: StatusView, rows: list[StockRowOutput], cluster: str | None, now: datetime.datetime
) -> StockOutput:
    from allotment.reports.outputs.stock import ReportedOutput, StockOutput

    return StockOutput(
        declared=build_declared_output(view),
        clusters=tuple(
            ReportedOutput(
                cluster=status.cluster,
                observed_at=status.observed_at or None,
                stale=status.is_stale(now),
                trouble=view.reported_status.troubles.get(status.cluster, ""),
            )
            for status in list_cluster_statuses(view, cluster)
        ),
        stocks=tuple(rows),
    )
