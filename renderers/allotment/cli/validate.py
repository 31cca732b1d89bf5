"""`allot validate`: everything that is wrong, at once."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.crash import report_tenants
from allotment.cli.formats import FORMATS, Judged, Reader, as_text
from allotment.cli.options import day_of, inside, output_option, recalled, repository, source_of, source_options
from allotment.problems import Problem

if TYPE_CHECKING:
    import datetime

    from allotment.adapters.source import Source
    from allotment.pipeline.check.survey import Survey


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@source_options
@click.option("--base", metavar="REF", help="Check rules about change against this commit too.")
@output_option("github", "gitlab", "sarif")
@click.option("--watch", is_flag=True, help="Check again whenever a file is saved.")
@click.option("--no-memory", is_flag=True, help="Read everything, whatever was found fine before.")
def command(
    *,
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

    The whole repository is read. With PATHS only problems that those files or folders cause or suffer are shown and
    count; how many there are elsewhere is said.

    \b
    Examples:
      allot validate
      allot validate tenants/solo-ada --base origin/main
      allot validate --watch
      allot validate --output sarif > allot.sarif
    """
    root = repository(repo)
    wanted = [inside(root, path) for path in paths]
    for path, name in zip(paths, wanted, strict=True):
        if base is None and commit is None and not os.path.lexists(root / name):
            raise click.UsageError(f"{path} doesn't exist; what a deletion means is checked with --base REF")

    if base == "HEAD" and not _has_commits(root):
        base = None  # pre-commit's first commit: nothing was there before

    def changed() -> list[str]:
        return _changed_files(root, wanted) if commit is None else []

    def whole() -> Survey:
        source = source_of(root, commit)
        from allotment.pipeline.check.survey import survey

        return survey(
            source,
            day_of(source, as_of),
            recall=None if no_memory else recalled(root, "-commit" if commit else ""),
            base=source_of(root, base) if base else None,
            today=day_of(source, None),
            changed_files=changed,
        )

    if not watch:
        raise click.exceptions.Exit(_show(whole(), style, wanted, source_of(root, commit), root))
    if commit is not None:
        raise click.UsageError("A commit doesn't change: --watch is for a folder.")
    _watch(
        root, whole, base is not None, lambda check: _show(check, style, wanted, source_of(root, None), root), changed
    )


def _changed_files(root: Path, wanted: list[str]) -> list[str]:
    """Return the declared files that the branch `spec.git.branch` of origin lacks, of tenants only those in `wanted` if it has
    any. Without that branch they differ from the last commit."""
    from allotment.adapters.folder import FolderSource
    from allotment.adapters.git.uncommitted import unmerged_files
    from allotment.pipeline.declared import branch_of

    names = unmerged_files(root, branch_of(FolderSource(root)))
    return [name for name in names if not wanted or not name.startswith("tenants/") or _lies_in(name, wanted)]


def _lies_in(path: str, folders: Iterable[str]) -> bool:
    return any(folder in ("", path) or path.startswith(f"{folder}/") for folder in folders)


def _has_commits(root: Path) -> bool:
    """Return whether anything was ever committed here."""
    from allotment.adapters.git.repository import Repository

    return Repository(root).has_commits()


def _show(check: Survey, style: str, wanted: list[str], source: Source, root: Path) -> int:
    problems, judged = check.problems, Judged(check.files, len(check.parts))
    if wanted and "" not in wanted:
        problems = [*_beside(wanted), *(problem for problem in problems if problem.touches(wanted))]
        judged = Judged(_files(check, source, wanted), elsewhere=_errors(check.problems) - _errors(problems))
    if style == "text":
        click.echo(as_text(problems, judged, _reader(source, root)), nl=False)
    else:
        click.echo(FORMATS[style](problems, judged), nl=False)
    if judged.elsewhere and style == "gitlab":
        click.echo(judged.rest, err=True)
    if check.traces:
        report_tenants(check.traces)
    return 1 if _errors(problems) else 0


def _reader(source: Source, root: Path) -> Reader:
    """Return how a person reads problems: paths from where they stand within the repository, lines on a terminal."""
    inner = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(root))
    file_lines: dict[str, list[str]] = {}

    def path(text: str) -> str:
        stands_elsewhere = inner == os.pardir or inner.startswith(f"{os.pardir}{os.sep}")
        return text if stands_elsewhere or inner == os.curdir else os.path.relpath(text, inner)

    def line(text: str, number: int) -> str | None:
        if text not in file_lines:
            try:
                file_lines[text] = source.read(text).decode("utf-8").split("\n")
            except (OSError, ValueError):  # it is gone, or no text
                file_lines[text] = []
        return file_lines[text][number - 1] if 0 < number <= len(file_lines[text]) else None

    return Reader(path, line if sys.stdout.isatty() else None)


def _beside(wanted: list[str]) -> Iterator[Problem]:
    """Yield a warning for each path that no declaration can have."""
    from allotment.adapters.source import place_problem
    from allotment.declared.layout import ROOTS

    words = f"nothing reads it: declarations lie in {', '.join(sorted(ROOTS))}"
    for path in sorted(set(wanted)):
        if path.split("/")[0] not in ROOTS:
            yield place_problem(path, words, "layout")._replace(warning=True)


def _errors(problems: list[Problem]) -> int:
    return sum(not problem.warning for problem in problems)


def _files(check: Survey, source: Source, wanted: list[str]) -> int:
    """Return how many declared files are wanted, or lie in what is. What no survey reads, as a folder behind a link,
    isn't looked into."""
    from allotment.declared.layout import PLATFORM, ROOTS, Scope, scope_of

    clusters = {Scope("cluster", name) for name in check.offers.clusters}
    scopes = {PLATFORM, *clusters, *(Scope("tenant", name) for name in check.parts)}
    direct = {scope_of(f"{folder}/") for folder in wanted if folder.split("/")[0] in ROOTS}
    count = 0
    for scope in scopes if {"clusters", "tenants"} & set(wanted) else scopes & direct:
        with contextlib.suppress(FileNotFoundError):  # nothing of the platform is there yet
            count += sum(_lies_in(path, wanted) for path in source.files(scope).paths)
    return count


def _watch(
    root: Path,
    check_all: Callable[[], Survey],
    compares: bool,
    show: Callable[[Survey], int],
    changed: Callable[[], list[str]],
) -> None:
    """Check on every save: only the tenants whose files changed, or everything where the offers or a base count."""
    from watchfiles import watch

    from allotment.adapters.folder import FolderSource
    from allotment.pipeline.check.survey import resurvey

    check = check_all()
    click.clear()
    show(check)
    roots = [root / name for name in ("platform", "clusters", "tenants") if (root / name).is_dir()]
    for changes in watch(*roots, debounce=100, step=20):
        parts = [Path(path).relative_to(root).parts for _, path in changes]
        if compares or any(len(part) < 2 or part[0] != "tenants" for part in parts):
            check = check_all()
        else:
            check = resurvey(check, FolderSource(root), {part[1] for part in parts}, changed_files=changed)
        click.clear()
        show(check)
