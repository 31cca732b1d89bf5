"""`allot status`: what is declared, and how far it is in the clusters."""

from __future__ import annotations

import datetime
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allotment.cli.completing import ANY_THING, specs
from allotment.cli.looking import (
    LOOK_SECONDS,
    Invalid,
    check_known,
    clone_of,
    cluster_option,
    near,
    parted,
    place_options,
    say_declared,
    silent_clusters,
)
from allotment.cli.options import output_option
from allotment.problems import Refused, quoted

if TYPE_CHECKING:
    from allotment.observed.joined import Joined
    from allotment.pipeline.report.joining import View
    from allotment.reports.outputs.status import StatusOutput


class State(click.ParamType[str]):
    """A state of an instance, storage or snapshot, in any case."""

    name = "state"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from allotment.conditions import STATES

        found = {one.lower(): one for one in STATES}.get(str(value).lower())
        if found is None:
            self.fail(f"no state is named {quoted(value)}{near(str(value).capitalize(), STATES)}", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from allotment.conditions import STATES

        several = [one.lower() for one in STATES]
        return [CompletionItem(one) for one in several if one.startswith(incomplete.lower())]


@click.command()
@click.argument("what", metavar="[TENANT[/NAME]]", default="", shell_complete=ANY_THING)
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
    the clusters report. What no cluster shows is Merged (not published yet), Kept (not published: something of its
    tenant is invalid) or Published (not in its cluster yet), and WHY says what is missing.

    With --exit-code: 0 all that is declared to run runs, storages and snapshots are ready, and what is declared stopped
    is stopped; 1 something isn't, or nobody knows, because its cluster is silent.

    \b
    Examples:
      allot status
      allot status solo-ada/webui
      allot status --cluster eu-1 --state failed --state waiting
      allot status studio-kite --exit-code -q && echo all runs
    """
    from allotment.pipeline.report.joining import View

    if stocks and (what or states or spec or by_exit_code):
        raise click.UsageError("--stocks shows those of all clusters: it takes --cluster alone")
    if watch and (by_exit_code or style == "json"):
        raise click.UsageError("--watch is for people: it takes neither --exit-code nor JSON")
    tenant, name = parted(what)
    clone = clone_of(repo, url)
    invalid = Invalid(clone.root)
    while True:
        view = View(clone, tenant or None)
        check_known(view, tenant, name, cluster)
        rows = [] if stocks else invalid.explained(view, _chosen(view, name, cluster, states, spec))
        if watch:
            click.clear()
        _print(view, rows, cluster, style, stocks=stocks, one=bool(name))
        if not watch:
            break
        time.sleep(LOOK_SECONDS)
    if by_exit_code and not _is_as_declared(view, rows):
        raise click.exceptions.Exit(1)


def _chosen(view: View, name: str, cluster: str | None, states: Collection[str], spec: str | None) -> list[Joined]:
    """Return the rows that are asked for. Raises Refused where there is no such GPUSpec."""
    if spec is not None:
        known = {row.gpu_spec for row in view.rows} | set(view.gpu_specs)
        if spec not in known:
            raise Refused(f"no GPUSpec is named {quoted(spec)}{near(spec, known - {''})}")
    return [
        row
        for row in view.rows
        if (not name or row.thing.name == name)
        and cluster in (None, row.thing.cluster)
        and (not states or row.state in states)
        and spec in (None, row.gpu_spec)
    ]


def _is_as_declared(view: View, rows: Collection[Joined]) -> bool:
    """Return whether rows are as they are declared, and are said to be so by clusters that were seen lately."""
    silent = silent_clusters(view)
    declared = [row for row in rows if row.thing.blob]
    return all(row.is_as_declared and row.thing.cluster not in silent for row in declared)


def _print(view: View, rows: list[Joined], cluster: str | None, style: str, *, stocks: bool, one: bool) -> None:
    from allotment.reports import tables
    from allotment.reports.sheets import show

    now = datetime.datetime.now(datetime.UTC)
    say_declared(view, now)
    clusters = [each for each in view.now.clusters if cluster in (None, each.cluster)]
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(_output(view, rows, cluster, now)), nl=False)
    elif stocks:
        show(tables.stocks(clusters, now))
    elif one:
        for number, row in enumerate(rows):
            if number:
                click.echo()
            show(tables.details(row, now))
    else:
        show(tables.overview(clusters, rows, now))
        if not rows:
            click.echo("nothing that is declared or reported matches", err=True)


def _output(view: View, rows: list[Joined], cluster: str | None, now: datetime.datetime) -> StatusOutput:
    from allotment.observed.status import ClusterStatus
    from allotment.reports.outputs.status import DeclaredOutput, StatusOutput, cluster_output, tenant_outputs
    from allotment.reports.tables import is_stale

    source = view.declared.source
    made = datetime.datetime.fromtimestamp(source.repository.committed_at(source.commit), datetime.UTC)
    declared = DeclaredOutput(view.declared.words, source.commit, made.isoformat(), view.clone.differing(view.declared))
    said = {one.cluster: one for one in view.now.clusters}
    clusters = [said.get(name, ClusterStatus(name, "")) for name in sorted(view.keys) if cluster in (None, name)]
    return StatusOutput(
        declared=declared,
        clusters=tuple(
            cluster_output(one, view.now.troubles.get(one.cluster, ""), stale=is_stale(one, now)) for one in clusters
        ),
        tenants=tenant_outputs(rows),
    )
