"""`allot status`: what is declared, and how far it is in the clusters."""

from __future__ import annotations

import datetime
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allotment.cli.completing import TENANT_OR_THING, specs
from allotment.cli.looking import (
    LOOK_SECONDS,
    check_known,
    clone_of,
    cluster_option,
    near,
    parted,
    place_options,
    publish_check,
    say_declared,
    silent_clusters,
)
from allotment.cli.options import day_of, is_quiet, output_option, recalled
from allotment.problems import Refused, quoted

if TYPE_CHECKING:
    from allotment.accounts.capacity import StockUse
    from allotment.observed.joined import Joined
    from allotment.observed.publishing import PublishState
    from allotment.pipeline.report.joining import View
    from allotment.reports.outputs.status import StatusOutput


class State(click.ParamType[str]):
    """A state of an instance, storage or snapshot, in any case."""

    name = "state"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        states = _states()
        choice = {state.lower(): state for state in states}.get(str(value).lower())
        if choice is None:
            self.fail(f"no state is named {quoted(value)}{near(str(value).capitalize(), states)}", param, ctx)
        return choice

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        states = [state.lower() for state in _states()]
        return [CompletionItem(state) for state in states if state.startswith(incomplete.lower())]


def _states() -> tuple[str, ...]:
    """Return the states as JSON has them, and as people read them."""
    from allotment.conditions import STARTING, STATES

    return (*STATES, STARTING)


@click.command()
@click.argument("what", metavar="[TENANT[/NAME]]", default="", shell_complete=TENANT_OR_THING)
@cluster_option
@click.option(
    "--state",
    "states",
    type=State(),
    multiple=True,
    help="Show those in that state, such as failed or merged; may be given again.",
)
@click.option("--spec", metavar="NAME", shell_complete=specs, help="Show the instances of that GPUSpec alone.")
@click.option("--stocks", is_flag=True, help="Show what the stocks hold instead.")
@click.option("--watch", is_flag=True, help="Look again every few seconds, until interrupted.")
@click.option(
    "--exit-code",
    "by_exit_code",
    is_flag=True,
    help="End with 1 unless all that is declared, and shown, is as declared.",
)
@output_option()
@place_options
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
    """Show what is declared, and how far it is: all of it, a tenant's, or one instance, storage or snapshot with
    everything that is known of it.

    What is merged (the branch spec.git.branch of origin; HEAD without one) is joined with what is published and what
    the clusters report. What no cluster shows is Merged (not published yet), Kept (not published: its tenant is retained)
    or Published (not in its cluster yet); Removing is removed from Git and still published. WHY says what is missing.
    An instance is Starting until it answers its probe; JSON calls that Ready.

    With --exit-code: 0 all that is declared to run runs, storages and snapshots are ready, and what is declared stopped
    is stopped; 1 something isn't, or nobody knows, because its cluster is silent. With --quiet too, only that is shown.

    With --stocks, units of a cluster that nothing reports are as they are declared and held in Git, and READY is a dash.

    \b
    Examples:
      allot status
      allot status solo-ada/webui
      allot status --cluster eu-1 --state failed --state waiting
      allot status studio-kite --exit-code -q && echo all runs
    """
    from allotment.pipeline.report.joining import View
    from allotment.pipeline.status_view.publish_check import explained

    if stocks and (what or states or spec or by_exit_code):
        raise click.UsageError("--stocks shows those of all clusters: it takes --cluster alone")
    if watch and (by_exit_code or style == "json"):
        raise click.UsageError("--watch is for people: it takes neither --exit-code nor JSON")
    tenant, name = parted(what)
    clone = clone_of(repo, url)
    check = publish_check(clone.root)
    while True:
        view = View(clone, tenant or None)
        check_known(view, tenant, name, cluster)
        rows = [] if stocks else list(explained(view, _chosen(view, name, cluster, states, spec), check))
        if watch:
            click.clear()
        uses = _declared_stocks(view, cluster) if stocks else []
        amiss = _amiss(view, rows) if by_exit_code else []
        shown = amiss if by_exit_code and is_quiet() else rows
        if shown or not rows or style == "json":
            state = check.state(view)
            _print(
                view,
                state,
                rows if style == "json" else shown,
                cluster,
                style,
                uses,
                stocks=stocks,
                is_detailed=bool(name),
            )
        if not watch:
            break
        time.sleep(LOOK_SECONDS)
    if amiss:
        raise click.exceptions.Exit(1)


def _chosen(view: View, name: str, cluster: str | None, states: Collection[str], spec: str | None) -> list[Joined]:
    """Return the rows that are asked for. Raises Refused where there is no such GPUSpec."""
    if spec is not None:
        spec_names = {row.gpu_spec for row in view.rows} | set(view.gpu_specs)
        if spec not in spec_names:
            raise Refused(f"no GPUSpec is named {quoted(spec)}{near(spec, spec_names - {''})}")
    return [
        row
        for row in view.rows
        if (not name or row.thing.name == name)
        and cluster in (None, row.thing.cluster)
        and (not states or row.state in states or row.displayed_state in states)
        and spec in (None, row.gpu_spec)
    ]


def _amiss(view: View, rows: Collection[Joined]) -> list[Joined]:
    """Return the rows that aren't as they are declared, or of which no cluster that was seen lately says so."""
    silent = silent_clusters(view)
    return [row for row in rows if row.thing.blob and not (row.is_as_declared and row.thing.cluster not in silent)]


def _declared_stocks(view: View, cluster: str | None) -> list[StockUse]:
    """Return the stocks of clusters that nothing reports, as they are declared and held by what is declared."""
    from allotment.accounts.capacity import stock_uses
    from allotment.pipeline.check.survey import survey

    reported = {status.cluster for status in view.now.clusters}
    if reported >= view.keys.keys():
        return []
    source = view.declared.source
    check = survey(source, day_of(source, None), recall=recalled(view.clone.root, "-commit"))
    uses = stock_uses(check.offers, [claim for part in check.parts.values() for claim in part.claims])
    return [use for use in uses if use.cluster not in reported and cluster in (None, use.cluster)]


def _print(
    view: View,
    state: PublishState,
    rows: list[Joined],
    cluster: str | None,
    style: str,
    uses: list[StockUse],
    *,
    stocks: bool,
    is_detailed: bool,
) -> None:
    from allotment.reports import tables
    from allotment.reports.sheets import show

    now = datetime.datetime.now(datetime.UTC)
    say_declared(view, now, cluster, state)
    clusters = [each for each in view.now.clusters if cluster in (None, each.cluster)]
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(_output(view, state, rows, cluster, uses, now)), nl=False)
    elif stocks:
        show(tables.stocks(clusters, uses, now))
    elif is_detailed:
        for number, row in enumerate(rows):
            if number:
                click.echo()
            show(tables.details(row, view.consoles, now))
    else:
        show(tables.overview(clusters, rows, now))
        if not rows:
            click.echo("nothing that is declared or reported matches", err=True)


def _output(
    view: View,
    state: PublishState,
    rows: list[Joined],
    cluster: str | None,
    uses: list[StockUse],
    now: datetime.datetime,
) -> StatusOutput:
    from allotment.observed.status import ClusterStatus
    from allotment.reports.outputs.status import (
        DeclaredOutput,
        StatusOutput,
        cluster_output,
        published_output,
        tenant_outputs,
    )
    from allotment.reports.tables import is_stale

    source = view.declared.source
    commit_time = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
    declared = DeclaredOutput(
        view.declared.words, source.commit, commit_time.isoformat(), view.clone.differing(view.declared)
    )
    statuses = {status.cluster: status for status in view.now.clusters}
    clusters = [statuses.get(name, ClusterStatus(name, "")) for name in sorted(view.keys) if cluster in (None, name)]
    return StatusOutput(
        declared=declared,
        clusters=tuple(
            cluster_output(
                status,
                view.now.troubles.get(status.cluster, ""),
                stale=is_stale(status, now),
                uses=[use for use in uses if use.cluster == status.cluster],
            )
            for status in clusters
        ),
        tenants=tenant_outputs(rows, view.consoles),
        published=published_output(state, view.tenant),
    )
