"""`allot logs`: prints the log of an instance, or of the preparation of a storage."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from allotment.cli.api_access import api_access_options, explain_errors, open_api
from allotment.cli.completers import create_resource_completer
from allotment.cli.options import Period, find_repository, open_source, repository_option
from allotment.cli.status_options import split_resource_name
from allotment.problems import OperationRefused, escape_unprintable

# Control characters that could change a terminal, except line breaks, tabs and the colors that programs write.
_TERMINAL_CONTROL = re.compile(rb"\x1b(?!\[[0-9;]{0,20}m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]")


@click.command()
@click.argument("what", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances", "storages"))
@click.option("--follow", "-f", is_flag=True, help="Print new lines as they come, until interrupted.")
@click.option(
    "--since", type=Period(), metavar="DURATION", help="Print only the lines of this last time, such as 1h30m."
)
@click.option("--tail", type=click.IntRange(min=0), metavar="LINES", help="Print only the last lines.")
@click.option("--previous", is_flag=True, help="Print the log of the run before the last restart of the container.")
@click.option("--pod", metavar="NAME", help="The pod. Default: the newest pod that runs, otherwise the newest pod.")
@click.option(
    "--container",
    metavar="NAME",
    help="The container of the pod. Default: the container that determines the state of the pod.",
)
@api_access_options
@repository_option
def command(
    *,
    what: str,
    follow: bool,
    since: int | None,
    tail: int | None,
    previous: bool,
    pod: str | None,
    container: str | None,
    kubeconfig: Path | None,
    context: str | None,
    repo: Path | None,
) -> None:
    """Print the log of an instance, or of the preparation of a storage.

    The command asks the API server of the resource's cluster with your own rights: those of a kubeconfig. If you have no
    kubeconfig, open the log in Argo CD; `allot status TENANT/NAME` prints the link. On a terminal, control characters that
    could change the terminal are removed from the log.

    Exit status: 0 the log was printed, 2 the command is wrong, or there is no such log.

    \b
    Examples:
      allot logs solo-ada/webui
      allot logs solo-ada/webui --follow --since 10m
      allot logs solo-ada/webui --previous --tail 50
      allot logs solo-ada/models --context eu-1-admin
    """
    from allotment.adapters.cluster.pod_log import LogOptions, list_pods, stream_log
    from allotment.services.pod_choice import choose_pod, find_owner

    tenant, name = split_resource_name(what)
    if not (tenant and name):
        raise click.UsageError(f"{escape_unprintable(what)} is not in the format TENANT/NAME, such as solo-ada/webui")
    owner = find_owner(open_source(find_repository(repo), None), tenant, name)
    api = open_api(owner.cluster, kubeconfig, context)
    with explain_errors(api, owner, "list pods"):
        pods = list_pods(api, owner.namespace, owner.selector)
    chosen = choose_pod(owner, pods, pod)
    # A container that has restarted has the log of its last run, also while it waits in CrashLoopBackOff.
    if container is None and chosen.waiting_reason and not chosen.restarts and not previous:
        raise OperationRefused(
            f"pod {chosen.name} has no log, because its container waits: {escape_unprintable(chosen.waiting_reason)}; `allot status"
            f" {tenant}/{name}` shows more"
        )
    if previous and container is None and not chosen.restarts:
        raise OperationRefused(f"the container of pod {chosen.name} has not restarted: omit --previous")
    if len(pods) > 1 and pod is None:
        click.echo(f"{len(pods)} pods: this is the log of {chosen.name}; --pod names another pod", err=True)
    options = LogOptions(container or chosen.container, follow, previous, since, tail)
    with explain_errors(api, owner, "read logs"):
        out = sys.stdout.buffer
        is_terminal = sys.stdout.isatty()
        for piece in stream_log(api, owner.namespace, chosen.name, options):
            out.write(_TERMINAL_CONTROL.sub(b"", piece) if is_terminal else piece)
            out.flush()
