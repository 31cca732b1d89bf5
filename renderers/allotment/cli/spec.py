"""`allot spec`: lists and adds GPUSpecs, and changes their prices and their lifecycle."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import spec_verbs
from allotment.cli.lists import spec_list
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List and add GPUSpecs, set their prices, and deprecate, retire and activate them.

    \b
    Examples:
      allot spec list --min-memory 40Gi
      allot spec price l4-quarter 0.18 --from 2031-01-01
      allot spec deprecate l4-half
    """


for _verb in spec_verbs.COMMANDS:
    command.add_command(_verb)
command.add_command(spec_list.command)
