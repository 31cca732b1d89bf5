"""`allot node`: lists nodes, and takes them out of service."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import node_verbs
from allotment.cli.lists import node_list
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List the nodes of node pools, and take nodes out of service.

    \b
    Examples:
      allot node list
      allot node cordon eu-1/gpu-l4-03 --pool l4-ts4 --reason "Fan of GPU 2 is loud"
    """


for subcommand in (node_list.command, *node_verbs.COMMANDS):
    command.add_command(subcommand)
