"""`allot cluster`: adds clusters."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import platform_verbs
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """Add clusters.

    \b
    Examples:
      allot cluster add us-2 --domain us-2.gpu.acme.dev --oidc-issuer https://id.acme.dev
    """


command.add_command(platform_verbs.add_cluster)
