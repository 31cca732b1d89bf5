"""`allot tenant`: lists, creates, suspends, resumes and retires tenants."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import tenant_verbs
from allotment.cli.lists import tenant_list
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List, create, suspend, resume and retire tenants.

    \b
    Examples:
      allot tenant list --sort-by -cost
      allot tenant create blue-fox --plan starter --admin fay --login fay-b#5150 --subject 00u1fay
      allot tenant suspend solo-ada
    """


for _verb in tenant_verbs.COMMANDS:
    command.add_command(_verb)
command.add_command(tenant_list.command)
