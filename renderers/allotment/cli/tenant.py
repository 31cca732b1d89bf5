"""`allot tenant`: lists tenants."""

from __future__ import annotations

import click

from allotment.cli.lists import tenant_list


@click.group()
def command() -> None:
    """List tenants with their resources and costs.

    \b
    Examples:
      allot tenant list
      allot tenant list --sort-by -cost
    """


command.add_command(tenant_list.command)
