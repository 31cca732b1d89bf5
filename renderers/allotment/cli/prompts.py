"""Asks a person on a terminal: a choice of a numbered table, a text, or a confirmation."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from allotment.cli.change_options import ChangeOptions, Confirm
from allotment.cli.comment_options import TOKEN_VARIABLE
from allotment.cli.options import find_repository, is_quiet
from allotment.declared.values import RULES_BY_PATTERN
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.reports.sheets import Sheet, print_output

T = TypeVar("T")
_MAX_DIGITS = 5
_MAX_LISTED = 10  # names in an error


def has_terminal(options: ChangeOptions, *, no_input: bool) -> bool:
    """Return whether the command may ask: it reads and writes a terminal, prints text, and is not quiet."""
    if no_input or options.style != "text" or is_quiet():
        return False
    streams = sys.stdin, sys.stdout  # None if the stream is closed
    return all(stream is not None and stream.isatty() for stream in streams)


def choose_confirmation(*, is_interactive: bool, is_confirmed: bool) -> Confirm | None:
    """Return the question before a creation; None if the command may not ask, or if --yes answers it."""
    return _confirm_creation if is_interactive and not is_confirmed else None


def _confirm_creation() -> None:
    """Ask for a confirmation. Raises Exit if the answer is no."""
    if not click.confirm("Create it?", default=True):
        click.echo("nothing was changed", err=True)
        raise click.exceptions.Exit(1)


def complete_options(options: ChangeOptions, path: str, arguments: T, ask_options: Callable[[], T] | None) -> T:
    """Return the given options of a new file, a NamedTuple, with the answers to the questions about the others.

    If an earlier command wrote the file to the folder, these are its answers. `ask_options` is None without a terminal: then
    nothing else completes the options.
    """
    from allotment.services.changes.answer_record import read_answers, write_answers

    if options.url is not None:
        return ask_options() if ask_options is not None else arguments
    root, fields = find_repository(options.repo), arguments._asdict()  # type: ignore[attr-defined]
    earlier = read_answers(root, path)
    if earlier.keys() == fields.keys():
        texts = {name: tuple(value) if isinstance(value, list) else value for name, value in earlier.items()}
        return type(arguments)(**{name: value or texts[name] for name, value in fields.items()})
    if ask_options is None:
        return arguments
    answers = ask_options()
    if options.changes_folder and not options.is_dry_run:
        write_answers(root, path, answers._asdict())  # type: ignore[attr-defined]
    return answers


def wants_pull_request() -> bool:
    """Ask whether to open a pull request for the written files. Without a token, print the command that opens it."""
    if os.environ.get(TOKEN_VARIABLE):
        return click.confirm("Open a pull request now?", default=True)
    command = escape_unprintable(shlex.join(["allot", *sys.argv[1:]]), 2000)
    click.echo(f"Next, with the forge's token in {TOKEN_VARIABLE}: {command} --pr")
    click.echo(f"Or without a token, to push a branch: {command} --push")
    return False


def choose(title: str, sheet: Sheet, choices: Sequence[T], names: Sequence[str], default: int = 1) -> T:
    """Print numbered choices, and return the choice of a person. The answer is a number, or a name that occurs once."""

    unique = [name for name in names if list(names).count(name) == 1]

    def convert(answer: Any) -> int:
        text = str(answer).strip()
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS else 0
        if not 1 <= number <= len(choices):
            number = names.index(text) + 1 if text in unique else 0
        if not number:
            listed = f", or a name: {', '.join(unique)}" if 0 < len(unique) <= _MAX_LISTED else ""
            raise click.UsageError(f"{quote_value(text)} is no choice: write a number from 1 to {len(choices)}{listed}")
        return number

    click.echo()
    print_output(sheet.with_numbers())
    number: int = click.prompt(f"{title} (1 to {len(choices)})", default, value_proc=convert)
    return choices[number - 1]


def prompt_value(question: str, explanation: str, convert: Callable[[str], T], default: str | None = None) -> T:
    """Return the converted answer to a question. Ask again while it is empty, or while `convert` raises UsageError.

    The answer `?` prints the explanation.
    """
    while True:
        text: str = click.prompt(question, default or "", show_default=default is not None)
        if text.strip() == "?":
            click.echo(explanation)
        elif not text.strip():
            click.echo("This question needs an answer; ? explains it.")
        else:
            try:
                return convert(text)
            except click.UsageError as error:
                click.echo(f"Error: {error.message}")


def ask(question: str, default: str | None, check: Callable[[str], object]) -> str:
    """Return the answer to a question. Ask again while `check` raises an expected error."""

    def convert(text: str) -> str:
        try:
            check(text)
        except (OperationRefused, ValueError) as error:
            raise click.UsageError(escape_unprintable(_first_message(error), 400)) from None
        return text

    answer: str = click.prompt(question, default, value_proc=convert)
    return answer


def _first_message(error: Any) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    detail = error.errors(include_url=False)[0]
    if detail["type"] == "string_pattern_mismatch":
        return RULES_BY_PATTERN[detail["ctx"]["pattern"]][1]
    return str(detail["msg"])
