"""`allot spec`: adds GPUSpecs, and changes their prices and their lifecycle."""

from __future__ import annotations

import click

from allotment.cli.edit_commands import spec_verbs


@click.group()
def command() -> None:
    """Add GPUSpecs, set their prices, and deprecate, retire and activate them.

    \b
    Examples:
      allot spec price l4-quarter 0.18 --from 2031-01-01
      allot spec deprecate l4-half
    """


for _verb in spec_verbs.COMMANDS:
    command.add_command(_verb)
