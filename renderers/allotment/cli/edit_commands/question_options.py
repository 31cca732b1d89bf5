"""The options of commands that ask a person for missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def question_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --yes and --no-input. The command gets them as `is_confirmed` and `no_input`."""
    for option in (
        click.option("--no-input", is_flag=True, help="Ask no questions on a terminal: a missing option is an error."),
        click.option(
            "--yes", "is_confirmed", is_flag=True, help="Write without asking for a confirmation on a terminal."
        ),
    ):
        command = option(command)
    return command
