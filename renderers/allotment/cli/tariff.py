"""`allot tariff`: lists and adds tariff plans."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import platform_verbs
from allotment.cli.lists import platform_lists
from allotment.cli.subcommand_group import SubcommandGroup


@click.group(cls=SubcommandGroup)
def command() -> None:
    """List and add tariff plans, which limit the resources and costs of tenants.

    \b
    Examples:
      allot tariff list
      allot tariff add course --gpu nvidia-l4=1 --instances 2 --storages 2 --storage 100Gi --budget 50
    """


command.add_command(platform_verbs.add_plan)
command.add_command(platform_lists.tariffs)
