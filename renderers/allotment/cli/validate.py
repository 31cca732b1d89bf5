"""`allot validate`: everything that is wrong, at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allotment.adapters.memory import memory_name
from allotment.cli.formats import FORMATS
from allotment.cli.options import day_of, inside, repository, source_of, source_options
from allotment.problems import Problem

if TYPE_CHECKING:
    import datetime

    from allotment.cli.survey import Survey


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

    def once() -> int:
        source = source_of(root, commit)
        from allotment.cli.survey import survey

        found = survey(
            source,
            day_of(root, source, as_of),
            memory_name=None if no_memory else memory_name(root) + ("-commit" if commit else ""),
            base=source_of(root, base) if base else None,
        )
        return _show(found, style, wanted)

    if not watch:
        raise click.exceptions.Exit(once())
    _watch(root, once)


def _show(found: Survey, style: str, wanted: list[str]) -> int:
    problems: list[Problem] = found.problems
    if wanted and "" not in wanted:
        problems = [problem for problem in problems if problem.touches(wanted)]
    click.echo(FORMATS[style](problems, found.files, len(found.parts)), nl=False)
    return 1 if any(not problem.warning for problem in problems) else 0


def _watch(root: Path, once: Any) -> None:
    from watchfiles import watch

    click.clear()
    once()
    roots = [root / name for name in ("platform", "clusters", "tenants") if (root / name).is_dir()]
    for _ in watch(*roots, debounce=100, step=20, raise_interrupt=False):
        click.clear()
        once()
