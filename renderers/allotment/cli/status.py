"""`allot status`: shows the declared resources, and their state in the clusters."""

from __future__ import annotations

import datetime
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.completers import COMPLETE_TENANT_OR_RESOURCE, complete_gpu_specs
from allotment.cli.options import choose_day, create_cache_opener, is_quiet, output_option
from allotment.cli.status_options import (
    State,
    build_declared_output,
    clone_options,
    cluster_option,
    create_publish_check,
    list_cluster_statuses,
    open_clone,
    print_declared_commit,
    split_resource_name,
)
from allotment.problems import OperationRefused, quote_value

if TYPE_CHECKING:
    from allotment.capacity.units import StockUsage
    from allotment.observed.publish_state import PublishState
    from allotment.observed.resource_status import ResourceStatus
    from allotment.reports.outputs.status import StatusOutput
    from allotment.services.status_view.status_view import StatusView


@click.command()
@click.argument("what", metavar="[TENANT[/NAME]]", default="", shell_complete=COMPLETE_TENANT_OR_RESOURCE)
@cluster_option
@click.option(
    "--state",
    "states",
    type=State(),
    multiple=True,
    help="Show the resources in this state, such as failed or merged; may be given again.",
)
@click.option(
    "--spec", metavar="NAME", shell_complete=complete_gpu_specs, help="Show only the instances of this GPUSpec."
)
@click.option("--stocks", is_flag=True, help="Show the stocks instead.")
@click.option("--watch", is_flag=True, help="Refresh every few seconds, until interrupted.")
@click.option(
    "--exit-code",
    "by_exit_code",
    is_flag=True,
    help="Exit with 1 unless all displayed resources are as declared.",
)
@output_option()
@clone_options
def command(
    *,
    what: str,
    cluster: str | None,
    states: tuple[str, ...],
    spec: str | None,
    stocks: bool,
    watch: bool,
    by_exit_code: bool,
    style: str,
    repo: Path | None,
    url: str | None,
) -> None:
    """Show the state of declared resources: of all, of a tenant, or of one instance, storage or snapshot in detail.

    The command joins the merged declarations (the branch of declarations of origin, or HEAD without that branch) with the
    published manifests and the reports of the clusters. A resource that its cluster does not report is Merged (not published
    yet), Kept (an earlier version stays published, because its tenant is retained) or Published (not in its cluster yet).
    Removing means removed from Git and still published. WHY has the reason. An instance is Starting until it answers its
    probe; JSON calls this state Ready.

    With --exit-code: 0 all instances are as declared, running or stopped, and storages and snapshots are ready; 1 a resource
    is not, or its cluster is silent. With --quiet too, only such resources are shown.

    With --stocks, the units of a cluster without reports are those that Git declares and holds, and READY is a dash.

    \b
    Examples:
      allot status
      allot status solo-ada/webui
      allot status --cluster eu-1 --state failed --state waiting
      allot status studio-kite --exit-code -q && echo all runs
    """
    from allotment.services.status_view.name_check import check_names
    from allotment.services.status_view.publish_check import explain_unpublished
    from allotment.services.status_view.status_view import POLL_SECONDS, StatusView

    if stocks and (what or states or spec or by_exit_code):
        raise click.UsageError("--stocks can be combined only with --cluster")
    if watch and (by_exit_code or style == "json"):
        raise click.UsageError("--watch can't be combined with --exit-code or JSON")
    tenant, name = split_resource_name(what)
    clone = open_clone(repo, url)
    check = create_publish_check(clone.root)
    while True:
        view = StatusView(clone, tenant or None)
        check_names(view, tenant, name, cluster)
        rows = [] if stocks else list(explain_unpublished(view, _select_rows(view, name, cluster, states, spec), check))
        if watch:
            click.clear()
        uses = _list_unreported_stocks(view, cluster) if stocks else []
        amiss = _select_deviating(view, rows) if by_exit_code else []
        displayed_rows = amiss if by_exit_code and is_quiet() else rows
        if displayed_rows or not rows or style == "json":
            state = check.find_state(view)
            _print_status(
                view,
                state,
                rows if style == "json" else displayed_rows,
                cluster,
                style,
                uses,
                stocks=stocks,
                is_detailed=bool(name),
                tenant=tenant or None,
            )
        if not watch:
            break
        time.sleep(POLL_SECONDS)
    if amiss:
        raise click.exceptions.Exit(1)


def _select_rows(
    view: StatusView, name: str, cluster: str | None, states: Collection[str], spec: str | None
) -> list[ResourceStatus]:
    """Return the rows that the options select. Raises OperationRefused if there is no GPUSpec `spec`."""
    from allotment.declared.reading import suggest_name

    if spec is not None:
        spec_names = {row.gpu_spec for row in view.rows} | set(view.gpu_specs)
        if spec not in spec_names:
            raise OperationRefused(f"no GPUSpec is named {quote_value(spec)}{suggest_name(spec, spec_names - {''})}")
    return [
        row
        for row in view.rows
        if (not name or row.resource.name == name)
        and cluster in (None, row.resource.cluster)
        and (not states or row.state in states or row.displayed_state in states)
        and spec in (None, row.gpu_spec)
    ]


def _select_deviating(view: StatusView, rows: Collection[ResourceStatus]) -> list[ResourceStatus]:
    """Return each declared resource that is not in its declared state, or that is in a silent cluster.

    A cluster is silent if its last report is old, unusable or missing.
    """
    silent = view.reported_status.find_silent_clusters(datetime.datetime.now(datetime.UTC))
    return [
        row for row in rows if row.resource.blob and not (row.is_as_declared and row.resource.cluster not in silent)
    ]


def _list_unreported_stocks(view: StatusView, cluster: str | None) -> list[StockUsage]:
    """Return the stocks of clusters without a report, with the number of units that tenants hold."""
    from allotment.capacity.units import compute_stock_usage
    from allotment.services.check.check_options import CheckOptions
    from allotment.services.check.repository_check import check_repository

    reported = {status.cluster for status in view.reported_status.clusters}
    if reported >= view.reporter_keys.keys():
        return []
    source = view.declared_commit.source
    check = check_repository(
        source, choose_day(source, None), CheckOptions(open_cache=create_cache_opener(view.clone.root, "-commit"))
    )
    uses = compute_stock_usage(check.catalog, [claim for part in check.tally_entries.values() for claim in part.claims])
    return [use for use in uses if use.cluster not in reported and cluster in (None, use.cluster)]


def _print_status(
    view: StatusView,
    state: PublishState,
    rows: list[ResourceStatus],
    cluster: str | None,
    style: str,
    uses: list[StockUsage],
    *,
    stocks: bool,
    is_detailed: bool,
    tenant: str | None,
) -> None:
    from allotment.cli.list_options import current_time
    from allotment.reports import status_tables
    from allotment.reports.sheets import print_output

    now = current_time()
    print_declared_commit(view, now, cluster, state, tenant)
    clusters = [each for each in view.reported_status.clusters if cluster in (None, each.cluster)]
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(_build_output(view, state, rows, cluster, uses, now)), nl=False)
    elif stocks:
        print_output(status_tables.render_stocks(clusters, uses, now))
    elif is_detailed:
        from allotment.services.status_view.resource_details import read_storage_rows

        storages = {
            row.cluster: row.url for row in read_storage_rows(view, rows, choose_day(view.declared_commit.source, None))
        }
        for number, row in enumerate(rows):
            if number:
                click.echo()
            url = storages.get(row.resource.cluster) if row.resource.kind == "storage" else None
            print_output(status_tables.render_details(row, view.consoles, now, url))
    else:
        print_output(status_tables.render_overview(clusters, rows, now))
        if not rows:
            click.echo("no declared or reported resource matches", err=True)
        _print_forecast(view, now)


def _print_forecast(view: StatusView, now: datetime.datetime) -> None:
    """Print the cost of the month of the tenant of a view, if its usage is recorded."""
    from allotment.reports.cost_columns import describe_forecast
    from allotment.services.status_view.tenant_month import compute_tenant_month

    costs = compute_tenant_month(view, now)
    forecast = costs.tenants[0].forecast if costs is not None else None
    if costs is None or forecast is None:
        return
    color = "red" if forecast.is_over_budget else "yellow" if forecast.is_near_budget else None
    click.secho(describe_forecast(forecast, costs.currency), fg=color)


def _build_output(
    view: StatusView,
    state: PublishState,
    rows: list[ResourceStatus],
    cluster: str | None,
    uses: list[StockUsage],
    now: datetime.datetime,
) -> StatusOutput:
    from allotment.reports.outputs.status import StatusOutput, cluster_output, published_output, tenant_outputs

    return StatusOutput(
        declared=build_declared_output(view),
        clusters=tuple(
            cluster_output(
                status,
                view.reported_status.troubles.get(status.cluster, ""),
                stale=status.is_stale(now),
                uses=[use for use in uses if use.cluster == status.cluster],
            )
            for status in list_cluster_statuses(view, cluster)
        ),
        tenants=tenant_outputs(rows, view.consoles),
        published=published_output(state, view.tenant),
    )
