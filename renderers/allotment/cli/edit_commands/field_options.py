"""The options and arguments that several commands which edit declarations share, and the errors about their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from allotment.adapters.checkout_paths import refuse_committed_links
from allotment.adapters.credential_files import read_bytes
from allotment.cli.change_options import ChangeOptions, CheckFirst, Confirm
from allotment.cli.change_run import run_change
from allotment.cli.status_options import split_resource_name
from allotment.edits.option_tables import Table
from allotment.problems import OperationRefused, escape_unprintable, pluralize, quote_value

if TYPE_CHECKING:
    import datetime

    from click.shell_completion import CompletionItem

    from allotment.edits.change_set import ChangeSet
    from allotment.edits.declarations import Declarations
    from allotment.edits.input_rows import Columns, InputFile

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem] | list[str]"]
_KEY_BEGINNINGS = ("ssh-", "ecdsa-", "sk-")
_MAX_FILE_BYTES = 4_000_000


def table_options(
    table: Table, completers: Mapping[str, Completer] = MappingProxyType({}), *, absent: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of a table, in the order of the help.

    `completers` completes the values of options by their names. `absent` is the value of a text that is not given.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for row in reversed(table):
            settings: dict[str, Any] = {"help": row.help}
            if row.is_flag:
                settings["is_flag"] = True
            elif row.choices:
                settings["type"] = click.Choice(row.choices)
            else:
                settings |= {"metavar": row.metavar, "shell_complete": completers.get(row.name)}
                settings |= {"multiple": True} if row.is_list else {"default": row.default or absent}
            command = click.option(f"--{row.name}", row.key, **settings)(command)
        return command

    return decorate


def require_table_options(table: Table, values: Mapping[str, object], valid: Mapping[str, str]) -> None:
    """Raise OperationRefused if required options have no value. `valid` has more descriptions of valid values by option."""
    described = ((row, valid.get(row.name, row.valid)) for row in table)
    require_options(*(RequiredOption(f"--{row.name}", values[row.key], text) for row, text in described if text))


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


def require_resource_name(text: str, example: str = "solo-ada/webui") -> tuple[str, str]:
    """Return the tenant and the name in TENANT/NAME. Raises UsageError."""
    tenant, name = split_resource_name(text)
    if not (tenant and name):
        raise click.UsageError(f"{escape_unprintable(text)} is not in the format TENANT/NAME, such as {example}")
    return tenant, name


class RequiredOption(NamedTuple):
    """An option that a command requires, its value, and its valid values in words, such as `a size such as 24Gi`."""

    name: str
    value: object
    valid: str


def require_options(*options: RequiredOption) -> None:
    """Raise OperationRefused if options have no value. The error lists all of them with their valid values."""
    missing = [f"{option.name} ({option.valid})" for option in options if not option.value]
    if missing:
        raise OperationRefused(f"{pluralize(len(missing), 'option')} missing: add {', '.join(missing)}")


def list_choices(names: list[str]) -> str:
    """Return names as the valid values of an option."""
    return ", ".join(names) or "none is declared yet"


def run_field_change(
    options: ChangeOptions,
    build: Callable[[Declarations], ChangeSet],
    inputs: Mapping[str, str],
    check_first: CheckFirst | None = None,
    confirm: Confirm | None = None,
) -> None:
    """Run a change. The error about an invalid field names the option that has the value, by `inputs`."""
    from allotment.edits.new_declaration import InvalidField

    try:
        run_change(options, build, confirm, check_first)
    except InvalidField as error:
        raise OperationRefused(error.name_input(inputs)) from None


def read_billing_day(declarations: Declarations) -> datetime.date:
    """Return the day in the billing time zone."""
    import zoneinfo

    from allotment.cli import options
    from allotment.edits.spec_edits import read_time_zone

    return options.today(zoneinfo.ZoneInfo(read_time_zone(declarations)))


def read_file(option: str, path: Path) -> bytes:
    """Return the content of a file that an option names. Raises OperationRefused if it can't be read."""
    refuse_committed_links(path)
    try:
        return read_bytes(path, _MAX_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is invalid"
        raise OperationRefused(f"{option}: {quote_value(str(path))} can't be read: {reason}") from None


def read_option_rows(path: Path, columns: Columns, values: Mapping[str, object]) -> InputFile:
    """Return the rows of the file of --from. `values` are the arguments and options that the rows have.

    Raises UsageError if one of these has a value.
    """
    from allotment.edits.input_rows import read_rows

    if name := next((name for name, value in values.items() if value), None):
        raise click.UsageError(f"{name}: the rows of --from have the values: omit it, or omit --from")
    return read_rows(str(path), read_file("--from", path), columns)


def read_ssh_keys(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return public keys. A value is a key, or the name of a file that has a key in each line, such as id_ed25519.pub."""
    keys: list[str] = []
    for value in values:
        if value.startswith(_KEY_BEGINNINGS) and " " in value:
            keys.append(value.strip())
            continue
        text = read_file("--ssh-key", Path(os.path.expanduser(value))).decode("utf-8-sig", "replace")
        if "PRIVATE KEY" in text:
            raise OperationRefused(
                f"--ssh-key: {quote_value(value)} has a private key: name the file of its public key, {quote_value(f'{value}.pub')}"
            )
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if not lines:
            raise OperationRefused(f"--ssh-key: {quote_value(value)} has no key: name a file such as id_ed25519.pub")
        keys += lines
    return tuple(keys)
