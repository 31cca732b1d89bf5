"""`allot history`: shows the changes of state of a tenant's resources, from the history of the status branches."""

from __future__ import annotations

import datetime
from pathlib import Path

import click

from allotment.cli.completers import COMPLETE_TENANT_OR_RESOURCE
from allotment.cli.options import WholeNumber, is_quiet, output_option
from allotment.cli.status_options import clone_options, cluster_option, open_clone, split_resource_name
from allotment.problems import escape_unprintable


@click.command()
@click.argument("what", metavar="TENANT[/NAME]", shell_complete=COMPLETE_TENANT_OR_RESOURCE)
@cluster_option
@click.option("--limit", default=200, show_default=True, type=WholeNumber(1), help="The maximum number of changes.")
@output_option()
@clone_options
def command(what: str, cluster: str | None, limit: int, style: str, repo: Path | None, url: str | None) -> None:
    """Show the newest changes of state of a tenant, or of one of its instances or storages, oldest first.

    A declared resource whose cluster has reported no change yet has no rows. An unknown name is exit status 2.

    \b
    Examples:
      allot history solo-ada/webui
      allot history studio-kite --cluster eu-1 --limit 20 -o json
    """
    from allotment.services.status_view.name_check import check_names
    from allotment.services.status_view.status_view import StatusView

    tenant, name = split_resource_name(what)
    view = StatusView(open_clone(repo, url), tenant)
    check_names(view, "", "", cluster)
    rows = view.read_transitions(tenant, name, cluster, limit)
    if not rows:
        check_names(view, tenant, name)
        if not is_quiet():
            message = f"no cluster has reported a change of {escape_unprintable(what)} yet: `allot status {escape_unprintable(what)}` shows its state"
            click.echo(message, err=True)
    if style == "json":
        from allotment.reports.outputs import as_json
        from allotment.reports.outputs.history import HistoryOutput, change_output

        changes = tuple(change_output(each, transition) for each, transition in rows)
        click.echo(as_json(HistoryOutput(tenant=tenant, changes=changes)), nl=False)
    elif rows:
        from allotment.reports import status_tables
        from allotment.reports.sheets import print_output

        print_output(status_tables.render_history(rows, datetime.datetime.now(datetime.UTC)))
