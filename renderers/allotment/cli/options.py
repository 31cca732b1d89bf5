"""Options that several commands take, and what they mean."""

from __future__ import annotations

import datetime
import os
import zoneinfo
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.adapters.folder import FolderSource, find_root

if TYPE_CHECKING:
    from allotment.adapters.memory import Memory
    from allotment.adapters.source import Source


class Day(click.ParamType[datetime.date]):
    """A calendar day, 2026-01-31."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.date:
        if isinstance(value, datetime.date):
            return value
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no day: write one such as 2026-01-31", param, ctx)


repository_option = click.option(
    "--repo", type=click.Path(file_okay=False, path_type=Path), help="The repository; found from here if absent."
)


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --repo, --commit and --as-of."""
    for option in (
        click.option(
            "--as-of", type=Day(), help="The day whose prices count; today in the billing time zone if absent."
        ),
        click.option("--commit", metavar="REF", help="Read this commit's files, not the folder's."),
        repository_option,
    ):
        command = option(command)
    return command


def repository(repo: Path | None) -> Path:
    """Return the repository's folder: the one named, or the one around the current folder."""
    return repo.resolve() if repo is not None else find_root(Path.cwd())


def source_of(root: Path, commit: str | None) -> Source:
    """Return the folder, or one of its commits, as a source."""
    if commit is None:
        return FolderSource(root)
    from allotment.adapters.git.commit_source import CommitSource

    return CommitSource(root, commit)


def recalled(root: Path, what: str) -> Callable[[str], Memory]:
    """Return what remembers, for `what` of a repository, what was found fine before."""
    from allotment.adapters.memory import Memory, memory_name

    return partial(Memory.load, memory_name(root) + what)


def day_of(source: Source, as_of: datetime.date | None) -> datetime.date:
    """Return the day that counts: the one given, or today in the billing time zone (UTC while that can't be read)."""
    if as_of is not None:
        return as_of
    zone: datetime.tzinfo = datetime.UTC
    try:
        from allotment.declared.documents import read

        value: Any = read(source.read("platform/platform.yaml")).value
        zone = zoneinfo.ZoneInfo(value["spec"]["billing"]["timeZone"])
    except (OSError, KeyError, TypeError, ValueError):
        pass  # validation says what is wrong with it
    return datetime.datetime.now(zone).date()


def inside(root: Path, path: Path) -> str:
    """Return a path as the repository has it. It may be gone: a deletion has problems too."""
    if path.name in ("", ".."):  # `.` and what ends with `..` are folders that are there
        absolute = os.path.realpath(path)
    else:  # the last part may be a link, which is what counts then
        absolute = os.path.join(os.path.realpath(path.absolute().parent), path.name)
    relative = os.path.relpath(absolute, os.path.realpath(root))
    if relative == ".." or relative.startswith(f"..{os.sep}"):
        raise click.UsageError(f"{path} lies outside {root}")
    return "" if relative == "." else relative.replace(os.sep, "/")
