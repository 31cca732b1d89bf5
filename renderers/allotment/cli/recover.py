"""`allot recover` and `allot storage recover`: creates a commit that declares another attempt to prepare a storage, and the reason."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.cli.completers import create_resource_completer
from allotment.cli.options import find_repository, output_option
from allotment.cli.status_options import clone_options, open_status_remote
from allotment.problems import OperationRefused, escape_unprintable


@click.command()
@click.argument("what", metavar="TENANT/STORAGE", shell_complete=create_resource_completer("storages"))
@click.option(
    "--reason",
    required=True,
    metavar="TEXT",
    help="The reason why the next attempt can succeed. The commit records it.",
)
@click.option("--commit", "ref", default="HEAD", metavar="REF", show_default=True, help="The parent of the new commit.")
@click.option(
    "--push", "push", metavar="URL", help="Push the branch to this remote, such as origin. Default: create it here."
)
@click.option(
    "--force",
    is_flag=True,
    help="Recover even if no status reports a failed attempt. The data may be overwritten.",
)
@output_option()
@clone_options
def command(
    *, what: str, reason: str, ref: str, push: str | None, force: bool, style: str, repo: Path | None, url: str | None
) -> None:
    """Retry the failed preparation of a storage.

    The command creates a branch recover/TENANT/STORAGE-ATTEMPT with one commit that raises spec.prepare.attempt. Open a pull
    request with it. The command changes no file in the folder. It refuses if the status branches do not report that the
    last attempt failed. With --push, the parent of the commit must be merged, because the new branch has the commits before it.

    \b
    Examples:
      allot recover solo-ada/models --reason 'The mirror is back'
      allot recover solo-ada/models --reason 'The mirror is back' --push origin
      allot storage recover solo-ada/models --reason 'The mirror is back'
    """
    from allotment.adapters.git.remote import Remote
    from allotment.branches.status_reader import read_reported_status
    from allotment.services.changes.recovery import create_branch, create_recovery_commit, push_recovery, require_merged

    if not reason.strip() or len(reason) > 2000:
        raise click.UsageError("add --reason with a sentence on why the next attempt can succeed")
    root = find_repository(repo)
    repository, remote, clusters = open_status_remote(root, url)
    tenant, slash, name = what.partition("/")
    if not (tenant and slash and name):
        raise OperationRefused(
            f"{escape_unprintable(what)} is not in the format TENANT/STORAGE: name a storage such as solo-ada/models"
        )
    ref = repository.resolve_named_commit(ref)  # once, because somebody may check out another commit meanwhile
    if push:
        require_merged(root, ref)
    recovery = create_recovery_commit(
        root, ref, what, reason, read_reported_status(repository, remote, clusters, [tenant]), force=force
    )
    if push:
        recovery = push_recovery(Remote(repository, push), recovery)
    else:
        create_branch(repository, recovery)
    if style == "json":
        from allotment.reports import outputs

        click.echo(outputs.as_json(recovery), nl=False)
        return
    click.echo(
        f"{recovery.branch}: {recovery.commit[:12]} raises {what} to attempt {recovery.attempt}. {recovery.because}."
    )
    if recovery.overwrites:
        click.echo(f"With it {recovery.overwrites}.", err=True)
    click.echo("Open a pull request for this branch." if push else _describe_push(root, ref, recovery.branch))


def _describe_push(root: Path, ref: str, branch: str) -> str:
    """Return how to push the branch, or the reason why nobody should."""
    from allotment.services.changes.recovery import require_merged

    try:
        require_merged(root, ref)
    except OperationRefused as error:
        return f"Don't push it: {error}"
    return f"Push it, and open a pull request: git push origin {branch}"
