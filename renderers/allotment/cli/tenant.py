"""`allot tenant`: creates, suspends, resumes and retires tenants."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import tenant_verbs


@click.group()
def command() -> None:
    """Create, suspend, resume and retire tenants.

    \b
    Examples:
      allot tenant create blue-fox --plan starter --admin fay --login fay-b#5150 --subject 00u1fay
      allot tenant suspend solo-ada
    """


for _verb in tenant_verbs.COMMANDS:
    command.add_command(_verb)
