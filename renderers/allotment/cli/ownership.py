"""`allot ownership`: writes the file of code owners for the forge."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.options import find_repository, output_option, repository_option
from allotment.cli.subcommand_group import SubcommandGroup
from allotment.declared.forges import FORGES
from allotment.problems import OperationRefused

if TYPE_CHECKING:
    from allotment.adapters.folder_source import FolderSource
    from allotment.reports.outputs.ownership import OwnedOutput


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Write the file of code owners for the forge.

    \b
    Examples:
      allot ownership codeowners > CODEOWNERS
    """


@command.command("codeowners")
@click.option(
    "--forge",
    type=click.Choice(list(FORGES), case_sensitive=False),
    help="The forge for which the file is written. Default: spec.git.forge of the platform.",
)
@output_option()
@repository_option
def write_codeowners(forge: str | None, style: str, repo: Path | None) -> None:
    """Write a CODEOWNERS to standard output: redirect it to CODEOWNERS, or .github/CODEOWNERS.

    The forge then requests a review from the people whose approval `allot plan` accepts. Write the file again when members
    change.

    \b
    Examples:
      allot ownership codeowners > CODEOWNERS
      allot ownership codeowners --forge gitlab > CODEOWNERS
    """
    from allotment.adapters.folder_source import FolderSource
    from allotment.branches.platform_settings import read_platform
    from allotment.reports import codeowners, outputs
    from allotment.reports.outputs.ownership import OwnershipOutput

    source = FolderSource(find_repository(repo))
    owned_patterns = list_owned_patterns(source)
    if owned_patterns is None:
        raise OperationRefused("platform/ownership.yaml doesn't exist or can't be read: see `allot validate`")
    if style == "json":
        click.echo(outputs.as_json(OwnershipOutput(paths=tuple(owned_patterns))), nl=False)
        return
    platform = read_platform(source)
    target_forge = forge or (platform.spec.git.forge if platform else "GitHub")
    click.echo(codeowners.render_codeowners(owned_patterns, target_forge), nl=False)


def list_owned_patterns(source: FolderSource) -> list[OwnedOutput] | None:
    """Return the patterns of the Ownership with their owners; None if the Ownership is absent or can't be read."""
    from allotment.branches.platform_settings import read_members
    from allotment.reports import codeowners
    from allotment.services.pull_requests.authorization import is_retired, read_ownership

    declared = read_ownership(source)
    if declared is None:
        return None
    tenants = [scope.name for scope in source.scopes()[0] if scope.kind == "tenant"]
    return list(
        codeowners.list_owned_patterns(
            declared.model.spec, tenants, partial(read_members, source), partial(is_retired, source)
        )
    )


def find_outdated_code_owners(root: Path) -> str:
    """Return the path of a file of code owners that differs from the Ownership; empty if there is none.

    Only a file that `allot ownership codeowners` wrote is compared.
    """
    from allotment.adapters.checkout_paths import is_regular
    from allotment.adapters.folder_source import FolderSource
    from allotment.reports import codeowners

    source = FolderSource(root)
    for path in codeowners.PATHS:
        text = source.read(path).decode("utf-8", "replace") if is_regular(root, path) else ""
        if text.startswith(codeowners.HEADER) and (owned_patterns := list_owned_patterns(source)) is not None:
            texts = {codeowners.render_codeowners(owned_patterns, forge) for forge in FORGES}
            return "" if text in texts else path
    return ""
