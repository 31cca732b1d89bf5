"""`allot node`: lists nodes."""

from __future__ import annotations

import click

from allotment.cli.lists import node_list
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List the nodes of node pools.

    \b
    Examples:
      allot node list
      allot node list --cluster eu-1 -o wide
    """


command.add_command(node_list.command)
