"""`allot exec`: runs a command, or a shell, in the container of an instance."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from allotment.cli.completers import create_resource_completer
from allotment.cli.pod_access_options import find_target, pod_access_options, require_stdout
from allotment.problems import OperationRefused, escape_unprintable


@click.command()
@click.argument("what", metavar="TENANT/NAME", shell_complete=create_resource_completer("instances"))
@click.argument("words", metavar="[-- COMMAND [ARGUMENT]...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--tty/--no-tty",
    default=None,
    help="Start the command on a terminal. Default: if standard input and output are a terminal.",
)
@click.option("--no-stdin", is_flag=True, help="Connect no standard input, such as in a loop that reads it.")
@pod_access_options
def command(
    *,
    what: str,
    words: tuple[str, ...],
    tty: bool | None,
    no_stdin: bool,
    pod: str | None,
    container: str | None,
    argocd: bool,
    kubeconfig: Path | None,
    context: str | None,
    repo: Path | None,
) -> None:
    """Run a command in the container of an instance, or open a shell there.

    Without a command, a shell opens: bash if the image has it, otherwise sh. Write -- before a command.

    The command uses your own rights: those of a kubeconfig at the API server of the instance's cluster, or your role in the
    tenant at Argo CD, after `argocd login`. Argo CD opens a shell on a terminal, and runs no command. In a browser, open the
    link that `allot status TENANT/NAME` prints. Write files to a storage: all other files are lost when the pod ends.

    Exit status: that of the command, or 2 if the command could not start. Argo CD reports no exit status, so it is 0.

    \b
    Examples:
      allot exec solo-ada/webui
      allot exec solo-ada/webui -- nvidia-smi
      allot exec solo-ada/webui -- tar -C /workspace -cf - outputs > outputs.tar
      allot exec solo-ada/webui --argocd
    """
    from allotment.adapters.cluster.pod_exec import ExecOptions
    from allotment.adapters.terminal import attach

    require_stdout()
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if tty and not has_terminal:
        raise OperationRefused("standard input and output are no terminal: omit --tty")
    if tty and no_stdin:
        raise click.UsageError("a terminal needs standard input: omit --tty or --no-stdin")
    is_terminal = has_terminal and tty is not False and not no_stdin
    reads_input = sys.stdin is not None and not no_stdin
    target = find_target(what, repo=repo, pod=pod, kubeconfig=kubeconfig, context=context, argocd=argocd)
    owner, chosen = target.owner, target.pod
    if owner.kind != "instance":
        raise OperationRefused(
            f"no command runs in the preparation of a storage: run it in an instance that mounts {owner.name}, or read `allot logs"
            f" {owner.tenant}/{owner.name}`"
        )
    if chosen.phase != "Running" or chosen.terminating:
        state = "ends" if chosen.terminating else f"is {escape_unprintable(chosen.phase or 'Unknown')}"
        raise OperationRefused(
            f"pod {chosen.name} {state}, so no command can run in it: `allot status {owner.tenant}/{owner.name}` shows the reason"
        )
    if target.pod_count > 1 and pod is None:
        click.echo(f"{target.pod_count} pods: this is {chosen.name}; --pod names another pod", err=True)
    options = ExecOptions(container or chosen.container, words, reads_input, is_terminal)
    with target.explain_errors("run commands"):
        process = target.access.start_command(owner, chosen.name, options)
        try:
            attach(process, reads_input=reads_input, is_terminal=is_terminal)
        finally:
            process.socket.close()
    sys.exit(process.exit_status or 0)
