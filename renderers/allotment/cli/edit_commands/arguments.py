"""Parses the arguments that several editing commands share."""

from __future__ import annotations

import click

from allotment.cli.status_options import split_resource_name
from allotment.problems import escape_unprintable


def require_resource_name(text: str, example: str = "solo-ada/webui") -> tuple[str, str]:
    """Return the tenant and the name in TENANT/NAME. Raises UsageError."""
    tenant, name = split_resource_name(text)
    if not (tenant and name):
        raise click.UsageError(f"{escape_unprintable(text)} is not in the format TENANT/NAME, such as {example}")
    return tenant, name
