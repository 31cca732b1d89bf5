"""`allot validate`: everything that is wrong, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.formats import FORMATS
from allotment.cli.options import day_of, inside, recalled, repository, source_of, source_options
from allotment.problems import Problem

if TYPE_CHECKING:
    import datetime

    from allotment.pipeline.survey import Survey


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@source_options
@click.option("--base", metavar="REF", help="Check rules about change against this commit too.")
@click.option("--format", "style", type=click.Choice(sorted(FORMATS)), default="text", show_default=True)
@click.option("--watch", is_flag=True, help="Check again whenever a file is saved.")
@click.option("--no-memory", is_flag=True, help="Read everything, whatever was found fine before.")
def command(
    paths: tuple[Path, ...],
    repo: Path | None,
    commit: str | None,
    as_of: datetime.date | None,
    base: str | None,
    style: str,
    watch: bool,
    no_memory: bool,
) -> None:
    """Check declarations, and say everything that is wrong at once.

    The whole repository is read. With PATHS only problems that those files or folders cause or suffer are shown.
    """
    root = repository(repo)
    wanted = [inside(root, path) for path in paths]
    for path, name in zip(paths, wanted, strict=True):
        if base is None and commit is None and not os.path.lexists(root / name):
            raise click.UsageError(f"{path} doesn't exist; what a deletion means is checked with --base REF")

    def whole() -> Survey:
        source = source_of(root, commit)
        from allotment.pipeline.survey import survey

        return survey(
            source,
            day_of(source, as_of),
            recall=None if no_memory else recalled(root, "-commit" if commit else ""),
            base=source_of(root, base) if base else None,
        )

    if not watch:
        raise click.exceptions.Exit(_show(whole(), style, wanted))
    if commit is not None:
        raise click.UsageError("A commit doesn't change: --watch is for a folder.")
    _watch(root, whole, base is not None, lambda found: _show(found, style, wanted))


def _show(found: Survey, style: str, wanted: list[str]) -> int:
    problems: list[Problem] = found.problems
    if wanted and "" not in wanted:
        problems = [problem for problem in problems if problem.touches(wanted)]
    click.echo(FORMATS[style](problems, found.files, len(found.parts)), nl=False)
    return 1 if any(not problem.warning for problem in problems) else 0


def _watch(root: Path, whole: Callable[[], Survey], compares: bool, show: Callable[[Survey], int]) -> None:
    """Check on every save: only the tenants whose files changed, or everything where the offers or a base count."""
    from watchfiles import watch

    from allotment.adapters.folder import FolderSource
    from allotment.pipeline.survey import resurvey

    found = whole()
    click.clear()
    show(found)
    roots = [root / name for name in ("platform", "clusters", "tenants") if (root / name).is_dir()]
    for changes in watch(*roots, debounce=100, step=20, raise_interrupt=False):
        parts = [Path(path).relative_to(root).parts for _, path in changes]
        if compares or any(len(part) < 2 or part[0] != "tenants" for part in parts):
            found = whole()
        else:
            found = resurvey(found, FolderSource(root), {part[1] for part in parts})
        click.clear()
        show(found)
