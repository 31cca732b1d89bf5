"""`allot spec`: lists GPUSpecs."""

from __future__ import annotations

import click

from allotment.cli.lists import spec_list


@click.group()
def command() -> None:
    """List GPUSpecs with their units and prices.

    \b
    Examples:
      allot spec list
      allot spec list --min-memory 40Gi
    """


command.add_command(spec_list.command)
