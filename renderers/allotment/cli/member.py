"""`allot member`: lists the members of tenants."""

from __future__ import annotations

import click

from allotment.cli.lists import member_list


@click.group()
def command() -> None:
    """List the members of tenants.

    \b
    Examples:
      allot member list
      allot member list --tenant solo-ada
    """


command.add_command(member_list.command)
