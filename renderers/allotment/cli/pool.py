"""`allot pool`: lists and adds node pools to clusters."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import platform_verbs
from allotment.cli.lists import platform_lists
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List node pools, and add them to clusters.

    \b
    Examples:
      allot pool list
      allot pool add eu-1/l4-more --gpu nvidia-l4 --gpu-count 4 --cpu 46 --memory 190Gi --nodes 2
    """


command.add_command(platform_verbs.add_pool)
command.add_command(platform_lists.pools)
