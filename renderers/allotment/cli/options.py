"""The options that several commands share."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from allotment.adapters.checkout_paths import refuse_submodule
from allotment.adapters.folder_source import FolderSource, TenantTokens, find_root
from allotment.problems import quote_value

if TYPE_CHECKING:
    from allotment.adapters.declaration_source import Source
    from allotment.adapters.file_cache import FileCache


EXIT_WITH_WARNINGS = 4  # the exit status of a command that succeeded with warnings
# The key, in the metadata of a click context, of the folder that -C names. Completers read this folder.
FOLDER_KEY = "allotment.folder"
_QUIET_KEY = "allotment.quiet"
_MAX_DIGITS = 10


class Day(click.ParamType[datetime.date]):
    """A calendar day, such as 2026-01-31."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.date:
        if isinstance(value, datetime.date):
            return value
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a date: write a date such as 2026-01-31", param, ctx)


class FiniteRange(click.FloatRange):
    """A number in a range, neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class WholeNumber(click.ParamType[int]):
    """A whole number from `least` to `most`."""

    name = "number"

    def __init__(self, least: int = 0, most: int = 999_999_999) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        number = int(text) if text.isascii() and text.isdecimal() and len(text) < _MAX_DIGITS else -1
        if not self._least <= number <= self._most:
            self.fail(f"{quote_value(text)} is not a whole number from {self._least} to {self._most}", param, ctx)
        return number


class Period(click.ParamType[int]):
    """A duration in the format of declarations, such as 1h30m. The value of the option is in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        from pydantic import TypeAdapter, ValidationError

        from allotment.declared.values import Duration

        try:
            return TypeAdapter[int](Duration).validate_python(value)
        except ValidationError as error:
            self.fail(error.errors()[0]["msg"], param, ctx)


class _RenamedOption(click.Option):
    """An option with a former name as its last name. The former name still works, but the help leaves it out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        names, self.opts = self.opts, self.opts[:-1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def output_option(*more: str) -> Callable[..., Any]:
    """Return the option -o/--output. Its value `style` is text, json or a format of `more`."""
    return click.option(
        "-o",
        "--output",
        "--format",
        "style",
        cls=_RenamedOption,
        type=click.Choice(["text", "json", *more], case_sensitive=False),
        default="text",
        show_default=True,
        help="The output format; schemas/output/ has the JSON Schemas.",
    )


def _change_folder(context: click.Context, parameter: click.Parameter, folder: Path | None) -> None:
    if folder is not None:
        context.with_resource(contextlib.chdir(folder))
        context.meta[FOLDER_KEY] = Path.cwd()


def _set_quiet(context: click.Context, parameter: click.Parameter, quiet: bool) -> None:
    if quiet:
        context.find_root().meta[_QUIET_KEY] = True


def shared_options() -> list[click.Option]:
    """Return the options that every command takes: -C and --quiet."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    message = "Change to DIR before doing anything else."
    return [
        click.Option(
            ["-C", "begin_in"],
            type=folder,
            metavar="DIR",
            is_eager=True,
            expose_value=False,
            callback=_change_folder,
            help=message,
        ),
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_set_quiet,
            help="Print only problems and the requested output.",
        ),
    ]


def is_quiet() -> bool:
    """Return whether --quiet was given."""
    return bool(click.get_current_context().find_root().meta.get(_QUIET_KEY))


def print_note(text: str) -> None:
    """Print a note on standard output, unless --quiet was given."""
    if not is_quiet():
        click.echo(text)


repository_option = click.option(
    "--repo",
    envvar="ALLOT_REPO",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The repository. Default: $ALLOT_REPO, or the repository of the current folder.",
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --repo, --commit and --as-of."""
    for option in (
        click.option(
            "--as-of", type=Day(), help="Use the prices of this day. Default: today in the billing time zone."
        ),
        click.option("--commit", metavar="REF", help="Read the files of this commit instead of the folder."),
        repository_option,
    ):
        command = option(command)
    return command


def find_repository(repo: Path | None) -> Path:
    """Return the folder of the repository: `repo` if it is given, else the repository of the current folder."""
    if repo is None:
        return find_root(Path.cwd())
    if click.get_current_context().get_parameter_source("repo") is ParameterSource.ENVIRONMENT:
        refuse_submodule(repo.resolve())  # a pull request may have replaced the folder since the variable was set
    return repo.resolve()


def find_sample_folder() -> Path:
    """Return the folder of the sample cloud: in the installed package, or the checkout that contains this module."""
    from importlib.resources import files

    packaged = Path(str(files("allotment"))) / "sample"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3]


def open_source(root: Path, commit: str | None) -> Source:
    """Return the source of declarations: the commit `commit` if it is given, else the folder."""
    if commit is None:
        return FolderSource(root)
    from allotment.adapters.git.commit_source import CommitSource

    return CommitSource(root, commit)


@contextlib.contextmanager
def open_source_ahead(root: Path, commit: str | None, *, cached: bool) -> Iterator[Source]:
    """Yield the source of declarations for a check, which uses the cache of earlier checks if `cached` is true.

    If the cache of a folder is large, a forked process compares it with the folder. The caller can import the program
    meanwhile, which takes longer than the comparison of 5,000 tenants.
    """
    from allotment.adapters.file_cache import FileCache, cache_name, is_large
    from allotment.adapters.forked_call import ForkedCall, can_fork

    name = cache_name(root)
    if commit is not None or not cached or not is_large(name) or not can_fork():
        yield open_source(root, commit)
        return

    def compare() -> TenantTokens:
        os.chdir(root)  # the kernel resolves short paths faster
        return FolderSource(Path()).find_valid_tokens(FileCache.read_first_fields(name))

    with contextlib.closing(ForkedCall(compare)) as comparison:
        yield FolderSource(root, lambda: comparison.result() or {})


def create_cache_opener(root: Path, suffix: str) -> Callable[[str, Any], FileCache]:
    """Return a function that opens the cache of earlier checks of a repository.

    Each kind of check has a cache of its own, with `suffix` in its name.
    """
    from allotment.adapters.file_cache import FileCache, cache_name

    return partial(FileCache.load, cache_name(root) + suffix)


def choose_day(source: Source, as_of: datetime.date | None) -> datetime.date:
    """Return the day for all prices: `as_of` if it is given, else today in the billing time zone.

    If the billing time zone can't be read, return today in UTC.
    """
    if as_of is not None:
        return as_of
    import zoneinfo

    zone: datetime.tzinfo = datetime.UTC
    try:
        from allotment.declared.documents import read

        value: Any = read(source.read("platform/platform.yaml")).value
        zone = zoneinfo.ZoneInfo(value["spec"]["billing"]["timeZone"])
    except (OSError, KeyError, TypeError, ValueError):
        pass  # validation reports the problem
    return today(zone)


def today(zone: datetime.tzinfo) -> datetime.date:
    """Return the current date in a time zone."""
    return datetime.datetime.now(zone).date()


def to_repository_path(root: Path, path: Path) -> str:
    """Return a path relative to the root of the repository. Raises UsageError if the path is outside it.

    The file need not exist, because the deletion of a file can cause problems too.
    """
    if path.name in ("", ".."):  # `.` and paths that end with `..` are existing folders
        absolute = os.path.realpath(path)
    else:  # if the last part is a link, it is not resolved
        absolute = os.path.join(os.path.realpath(path.absolute().parent), path.name)
    relative = os.path.relpath(absolute, os.path.realpath(root))
    if relative == ".." or relative.startswith(f"..{os.sep}"):
        raise click.UsageError(f"{path} lies outside {root}")
    return "" if relative == "." else relative.replace(os.sep, "/")
