"""`allot wait`: waits until a resource is running, ready, starting, stopped, prepared or gone."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.completers import COMPLETE_RESOURCE
from allotment.cli.options import Period, output_option
from allotment.cli.status_options import (
    clone_options,
    cluster_option,
    create_publish_check,
    open_clone,
    split_resource_name,
)
from allotment.cli.wait_progress import TerminalProgress, end_wait
from allotment.problems import escape_unprintable


@click.command()
@click.argument("what", metavar="TENANT/NAME", shell_complete=COMPLETE_RESOURCE)
@click.option(
    "--for",
    "goal",
    type=click.Choice(["Running", "Ready", "Starting", "Stopped", "Prepared", "Gone"], case_sensitive=False),
    help="Running: the probe of an instance succeeds. Ready: a storage or snapshot can be used; an instance has"
    " started its container. Starting: the same for an instance. Stopped: for an instance. Prepared: for a storage. Gone: for all. Default: Running for an instance,"
    " otherwise Ready.",
)
@click.option(
    "--timeout",
    "seconds",
    type=Period(),
    default="10m",
    show_default=True,
    help="The maximum time to wait, such as 1h30m.",
)
@cluster_option
@output_option()
@clone_options
def command(
    *, what: str, goal: str | None, seconds: int, cluster: str | None, style: str, repo: Path | None, url: str | None
) -> None:
    """Wait until an instance, storage or snapshot reaches a state. Each change prints a line with the time, the elapsed time,
    the state, and the next step. On a terminal, the last line counts the seconds.

    The command checks the refs of the remote every few seconds and fetches the changes. Exit status: 0 the state is reached;
    1 it needs somebody's action: the resource failed, its tenant is retained, or its declaration differs; 124 the time is up.

    \b
    Examples:
      allot wait solo-ada/webui --timeout 30m && echo it runs
      allot wait solo-ada/models --for prepared
      allot wait solo-ada/webui --for gone -o json
    """
    from allotment.reports.outputs import as_json
    from allotment.services.status_view.resource_wait import ResourceWait, WaitTarget

    tenant, name = split_resource_name(what)
    if not (tenant and name):
        raise click.UsageError(
            f"{escape_unprintable(what)} is not in the format TENANT/NAME: name an instance, storage or snapshot"
        )
    clone, target = open_clone(repo, url), WaitTarget(tenant, name, cluster, goal or "")
    waiting = ResourceWait(clone, create_publish_check(clone.root), target, TerminalProgress(style))
    outcome = waiting.wait(seconds)
    if style == "json":
        click.echo(as_json(waiting.build_output(outcome)), nl=False)
    end_wait(outcome, waiting.explain_outcome(outcome))
