"""`allot logs`: prints the log of an instance, or of the preparation of a storage."""

from __future__ import annotations

import codecs
import re
import sys
from pathlib import Path

import click

from allotment.cli.completers import create_resource_completer
from allotment.cli.options import Period, WholeNumber
from allotment.cli.pod_access_options import find_target, pod_access_options, require_stdout
from allotment.problems import OperationRefused, escape_unprintable

# Control characters that could change a terminal, except line breaks, tabs and the colors that programs write.
_TERMINAL_CONTROL = re.compile(r"\x1b(?!\[[0-9;]{0,20}m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


class _TerminalFilter:
    """Removes control characters from the pieces of a log. A piece may end within a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def filter(self, piece: bytes) -> bytes:
        """Return a piece without control characters."""
        return _TERMINAL_CONTROL.sub("", self._decoder.decode(piece)).encode()


@click.command()
@click.argument("what", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances", "storages"))
@click.option("--follow", "-f", is_flag=True, help="Print new lines as they come, until interrupted.")
@click.option(
    "--since", type=Period(), metavar="DURATION", help="Print only the lines of this last time, such as 1h30m."
)
@click.option("--tail", type=WholeNumber(), metavar="LINES", help="Print only the last lines.")
@click.option("--previous", is_flag=True, help="Print the log of the run before the last restart of the container.")
@pod_access_options
def command(
    *,
    what: str,
    follow: bool,
    since: int | None,
    tail: int | None,
    previous: bool,
    pod: str | None,
    container: str | None,
    argocd: bool,
    kubeconfig: Path | None,
    context: str | None,
    repo: Path | None,
) -> None:
    """Print the log of an instance, or of the preparation of a storage.

    The command uses your own rights: those of a kubeconfig at the API server of the resource's cluster, or your role in the
    tenant at Argo CD, after `argocd login`. In a browser, open the link that `allot status TENANT/NAME` prints. On a terminal,
    control characters that could change the terminal are removed from the log.

    Exit status: 0 the log was printed, 2 the command is wrong, or there is no such log.

    \b
    Examples:
      allot logs solo-ada/webui
      allot logs solo-ada/webui --follow --since 10m
      allot logs solo-ada/webui --previous --tail 50
      allot logs solo-ada/models --argocd
    """
    from allotment.adapters.cluster.pod_log import LogOptions

    require_stdout()
    target = find_target(what, repo=repo, pod=pod, kubeconfig=kubeconfig, context=context, argocd=argocd)
    chosen = target.pod
    # A container that has restarted has the log of its last run, also while it waits in CrashLoopBackOff.
    if container is None and chosen.waiting_reason and not chosen.restarts and not previous:
        raise OperationRefused(
            f"pod {chosen.name} has no log, because its container waits: {escape_unprintable(chosen.waiting_reason)}; `allot status"
            f" {target.owner.tenant}/{target.owner.name}` shows more"
        )
    if previous and container is None and not chosen.restarts:
        raise OperationRefused(f"the container of pod {chosen.name} has not restarted: omit --previous")
    if target.pod_count > 1 and pod is None:
        click.echo(f"{target.pod_count} pods: this is the log of {chosen.name}; --pod names another pod", err=True)
    options = LogOptions(container or chosen.container, follow, previous, since, tail)
    with target.explain_errors("read logs"):
        out = sys.stdout.buffer
        terminal = _TerminalFilter() if sys.stdout.isatty() else None
        for piece in target.access.stream_log(target.owner, chosen.name, options):
            out.write(piece if terminal is None else terminal.filter(piece))
            out.flush()
