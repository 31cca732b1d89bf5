"""`allot operation`: shows the change that has an operation ID."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.change_options import ChangeOptions, open_branch_target, place_option
from allotment.cli.comment_options import TOKEN_VARIABLE, forge_api_option, read_token
from allotment.cli.options import output_option
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.problems import escape_unprintable, quote_value

if TYPE_CHECKING:
    from allotment.reports.outputs.operation import OperationOutput
    from allotment.services.changes.change_target import BranchTarget
    from allotment.services.changes.operation_lookup import FindPullRequest

_PLACES = {
    "Folder": "in uncommitted files of the folder",
    "Commit": "in a commit of the folder, not yet at the remote",
    "Branch": "in a branch at the remote",
    "PullRequest": "in an open pull request",
    "Closed": "in a pull request that was closed without a merge",
    "Merged": "merged",
}


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Show changes by their operation IDs.

    \b
    Examples:
      allot operation show deploy-2026.11
    """


@command.command("show")
@click.argument("operation_id", metavar="ID")
@forge_api_option
@output_option()
@place_option
def show(*, operation_id: str, forge_api: str | None, style: str, repo: Path | str | None) -> None:
    """Show where the change of a command with `--operation-id` is, with its title and its resources.

    The command searches the remote, then the folder. With the forge's token in ALLOT_FORGE_TOKEN, it also searches pull
    requests.

    Exit status: 0 success, 1 no change has the ID.

    \b
    Examples:
      allot operation show deploy-2026.11
      allot operation show deploy-2026.11 -o json
      allot operation show deploy-2026.11 --repo https://forge.example/acme/gpus
    """
    from allotment.edits.operation_id import check_operation_id

    folder, url = (None, repo) if isinstance(repo, str) else (repo, None)
    options = ChangeOptions(folder, False, False, False, style)  # no part of a change
    operation = _find(options._replace(operation_id=check_operation_id(operation_id), url=url, forge_api=forge_api))
    if operation is None:
        click.echo(f"no change has the operation ID {quote_value(operation_id)}", err=True)
        raise click.exceptions.Exit(1)
    if style == "json":
        from allotment.reports.outputs import as_json

        click.echo(as_json(operation), nl=False)
    else:
        _print_text(operation)


def _find(options: ChangeOptions) -> OperationOutput | None:
    from allotment.adapters.git.repository import Repository
    from allotment.cli.options import find_repository
    from allotment.services.changes.operation_lookup import OperationLookup

    if options.url is None:
        root = find_repository(options.repo)
        repository = Repository(root)
        lookup = OperationLookup(root, repository, options.operation_id)
        if repository.git.url_of("origin") is None:
            return lookup.find_in_folder()
    target = open_branch_target(options)
    lookup = OperationLookup(target.base.root, target.repository, options.operation_id)
    return lookup.find_at_remote(target, _create_pull_search(options, target)) or lookup.find_in_folder()


def _create_pull_search(options: ChangeOptions, target: BranchTarget) -> FindPullRequest:
    """Return the search for the pull request of the operation. Without a token, it finds none."""
    if not os.environ.get(TOKEN_VARIABLE, "").strip():
        return lambda: None
    from allotment.cli.change_proposal import create_proposer

    return create_proposer(options, target, read_token(None, has_option=False).secret).find_operation


def _print_text(operation: OperationOutput) -> None:
    click.echo(escape_unprintable(operation.title, 400))
    rows = [
        ("State", f"{operation.state}: {_PLACES[operation.state]}"),
        ("Resources", ", ".join(operation.resources)),
        ("Commit", operation.commit),
        ("Branch", operation.branch),
        ("Pull request", operation.url),
    ]
    for name, value in rows:
        if value:
            click.echo(f"  {name:<12}  {escape_unprintable(value, 2000)}")
