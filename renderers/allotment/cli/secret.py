"""`allot secret`: lists, shows and declares the secrets of tenants. Their values stay in a secret store."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import secret_create
from allotment.cli.lists import secret_list
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List, show and declare secrets, such as API keys. Their values stay in the secret store of a cluster, outside Git.

    \b
    Examples:
      allot secret list ml-orbit
      allot secret show ml-orbit/huggingface
      allot secret create solo-ada/huggingface --cluster eu-1 --key token
    """


command.add_command(secret_create.command)
command.add_command(secret_list.command)
command.add_command(secret_list.show)
