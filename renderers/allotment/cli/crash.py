"""Writes the report of a bug in Allotment: the command, the system and the stack trace, but no declarations or secrets."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Mapping

import click

from allotment import VERSION
from allotment.problems import escape_unprintable, hide_secrets


def report_tenant_bugs(tracebacks: Mapping[str, str]) -> None:
    """Write a report for each tenant that ran into a bug, and name the reports on standard error."""
    for tenant, trace in sorted(tracebacks.items()):
        click.echo(
            f"allot: tenant {escape_unprintable(tenant)} ran into a bug in Allotment; please send us {write_report(trace)}",
            err=True,
        )


def write_report(trace: str | None = None) -> str:
    """Write a report with a stack trace, by default of the current exception. Return the path of the report.

    If no temporary folder can be written, the report goes to standard error.
    """
    lines = [
        f"allotment {VERSION}, Python {sys.version.split()[0]}, {platform.system()} {platform.machine()}",
        f"command: {' '.join(sys.argv[1:2])}",
        "",
        trace or traceback.format_exc(),
    ]
    report = hide_secrets("\n".join(lines))
    try:
        handle, path = tempfile.mkstemp(prefix="allot-report-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(report)
    except OSError:
        click.echo(report, err=True)
        return "the lines above"
    return path
