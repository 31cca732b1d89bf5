"""`allot member`: lists, adds and removes the members of tenants."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import member_verbs
from allotment.cli.lists import member_list
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List, add and remove the members of tenants.

    \b
    Examples:
      allot member list solo-ada
      allot member add solo-ada ben --role Member --login ben-k#4712 --subject 00u1ben
      allot member remove ml-orbit noor
    """


for _verb in member_verbs.COMMANDS:
    command.add_command(_verb)
command.add_command(member_list.command)
