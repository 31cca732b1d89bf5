"""Shows the progress of a wait, and ends the command with the exit status of the outcome."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from allotment.cli.options import is_quiet

if TYPE_CHECKING:
    from allotment.reports.outputs.change import ChangeOutcome

_TIMEOUT_STATUS = 124  # the exit status of timeout(1) when the time is up


class TerminalProgress:
    """Prints the lines of a wait, to standard error with JSON output. On a terminal, the last line counts the seconds."""

    def __init__(self, style: str) -> None:
        self._has_json = style == "json"
        self._is_live = sys.stderr.isatty() and not is_quiet() and os.environ.get("TERM") != "dumb"

    def print_line(self, text: str) -> None:
        """Print a line with the current time, except with --quiet and JSON output."""
        if not (is_quiet() and self._has_json):
            now = datetime.datetime.now(datetime.UTC).strftime("%H:%M:%SZ")
            click.echo(f"{now} {text}", err=self._has_json)

    def pause(self, seconds: float, describe: Callable[[], str]) -> None:
        """Sleep. On a terminal, show the current text of `describe` each second."""
        if not self._is_live:
            time.sleep(seconds)
            return
        end = time.monotonic() + seconds
        try:
            while (remaining := end - time.monotonic()) > 0:
                _replace_last_line(describe())
                time.sleep(min(1, remaining))
        finally:
            _replace_last_line("")


def _replace_last_line(text: str) -> None:
    """Replace the last line of the terminal by a text, cut to the terminal's width. An empty text clears the line."""
    room = shutil.get_terminal_size().columns - 1
    click.echo(f"\r\x1b[K{text[:room]}", nl=False, err=True)


def end_wait(outcome: ChangeOutcome, reason: str) -> None:
    """Print the reason why a wait did not reach its goal, and end the command with the exit status of the outcome."""
    if reason:
        click.echo(reason, err=True)
    if outcome != "Reached":
        raise click.exceptions.Exit(_TIMEOUT_STATUS if outcome == "TimedOut" else 1)
