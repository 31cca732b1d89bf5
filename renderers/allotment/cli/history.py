"""`allot history`: what became of an instance or storage, from the history of the status branches."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from allotment.cli.completing import TENANT_OR_THING
from allotment.cli.looking import check_known, clone_of, cluster_option, parted, place_options
from allotment.cli.options import is_quiet, output_option
from allotment.problems import printable


@click.command()
@click.argument("what", metavar="TENANT[/NAME]", shell_complete=TENANT_OR_THING)
@cluster_option
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1), help="The most changes to show.")
@output_option()
@place_options
def command(what: str, cluster: str | None, limit: int, style: str, repo: Path | None, url: str | None) -> None:
    """Show the newest changes of state of a tenant, or of one of its instances or storages, oldest first.

    What is declared and of which no cluster has reported a change yet has none; a name that nobody knows is exit 2.

    \b
    Examples:
      allot history solo-ada/webui
      allot history studio-kite --cluster eu-1 --limit 20 -o json
    """
    from allotment.pipeline.report.joining import View

    tenant, name = parted(what)
    view = View(clone_of(repo, url), tenant)
    check_known(view, "", "", cluster)
    rows = view.history(tenant, name, cluster, limit)
    if not rows:
        check_known(view, tenant, name)
        if not is_quiet():
            words = f"no cluster has reported a change of {printable(what)} yet: `allot status {printable(what)}` says how far it is"
            click.echo(words, err=True)
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.history import HistoryOutput, change_output

        changes = tuple(change_output(each, transition) for each, transition in rows)
        click.echo(as_json(HistoryOutput(tenant=tenant, changes=changes)), nl=False)
    elif rows:
        from allotment.reports import tables
        from allotment.reports.sheets import show

        show(tables.history(rows, datetime.datetime.now(datetime.UTC)))
