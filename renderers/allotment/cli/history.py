"""`allot history`: what became of an instance or storage, from the history of the status branches."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import click

from allotment.cli.status import place, place_options
from allotment.problems import Refused, quoted


@click.command()
@click.argument("what", metavar="TENANT[/NAME]")
@click.option("--limit", default=200, show_default=True, type=click.IntRange(1), help="The most changes to show.")
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table", show_default=True)
@place_options
def command(what: str, limit: int, style: str, repo: Path | None, url: str | None) -> None:
    """Show the newest changes of state of a tenant, or of one of its instances or storages, oldest first."""
    from allotment.pipeline.report.statuses import read_history

    tenant, _, name = what.partition("/")
    rows = read_history(*place(repo, url), tenant, name or None, limit)
    if not rows:
        raise Refused(f"no cluster has reported a change of {quoted(what)}")
    if style == "json":
        plain = [
            {
                "time": one.time,
                "cluster": cluster,
                "kind": one.kind,
                "name": one.name,
                "from": one.source,
                "to": one.target,
                "reason": one.reason,
            }
            for cluster, one in rows
        ]
        click.echo(json.dumps(plain, indent=2))
        return
    from allotment.reports import tables

    tables.show(tables.history(rows, datetime.datetime.now(datetime.UTC)))
