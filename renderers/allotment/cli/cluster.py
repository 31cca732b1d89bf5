"""`allot cluster`: lists and adds clusters."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import platform_verbs
from allotment.cli.lists import platform_lists
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List and add clusters.

    \b
    Examples:
      allot cluster list
      allot cluster add us-2 --domain us-2.gpu.acme.dev --oidc-issuer https://id.acme.dev
    """


command.add_command(platform_verbs.add_cluster)
command.add_command(platform_lists.clusters)
