"""`allot validate`: checks declarations and reports all problems."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.cli.formats import FORMATS, CheckedScope, ProblemContext, as_text
from allotment.cli.options import (
    choose_day,
    create_cache_opener,
    find_repository,
    is_quiet,
    open_source,
    open_source_ahead,
    output_option,
    source_options,
    to_repository_path,
)
from allotment.problems import Problem, pluralize, pronoun_for

if TYPE_CHECKING:
    import datetime

    from allotment.adapters.declaration_source import Source
    from allotment.services.check.repository_check import RepositoryCheck

_WATCH_TIMEOUT = 100  # milliseconds until the watch of the files returns without a change


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@source_options
@click.option("--base", metavar="REF", help="Also check the changes since this commit.")
@output_option("github", "gitlab", "sarif")
@click.option("--watch", is_flag=True, help="Check again after each change of a file.")
@click.option("--no-memory", is_flag=True, help="Do not use the cached results of earlier checks.")
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
    """Check declarations and report all problems at once.

    The command always checks the whole repository. With PATHS, it shows only the problems that lie in these files or
    folders, or that these files cause elsewhere. It also prints the number of all other problems.

    \b
    Examples:
      allot validate
      allot validate tenants/solo-ada --base origin/main
      allot validate --watch
      allot validate --output sarif > allot.sarif
    """
    root = find_repository(repo)
    selected_paths = [to_repository_path(root, path) for path in paths]
    for path, name in zip(paths, selected_paths, strict=True):
        if base is None and commit is None and not os.path.lexists(root / name):
            raise click.UsageError(f"{path} doesn't exist. If you deleted it, add --base REF to check the deletion")

    if base == "HEAD" and not _has_commits(root):
        base = None  # before the first commit, there is no base

    def changed() -> list[str]:
        return _list_uncommitted_files(root, selected_paths) if commit is None else []

    def check_all(source: Source) -> RepositoryCheck:
        from allotment.services.check.check_options import CheckOptions, Comparison
        from allotment.services.check.repository_check import check_repository

        day = choose_day(source, as_of)
        return check_repository(
            source,
            day,
            CheckOptions(open_cache=None if no_memory else create_cache_opener(root, "-commit" if commit else "")),
            Comparison(
                base=open_source(root, base) if base else None,
                today=day if as_of is None else choose_day(source, None),
                changed_files=changed,
            ),
        )

    if not watch:
        with open_source_ahead(root, commit, cached=not no_memory) as source:
            check = check_all(source)
        status = _print_problems(check, style, selected_paths, open_source(root, commit), root)
        if style == "text" and commit is None and not selected_paths and not is_quiet():
            _print_open_blanks(root)
        raise click.exceptions.Exit(status)
    if commit is not None:
        raise click.UsageError("--watch works on a folder only, since a commit never changes.")
    _watch_files(
        root,
        lambda: check_all(open_source(root, None)),
        base is not None,
        lambda check: _print_problems(check, style, selected_paths, open_source(root, None), root),
        changed,
    )


def _list_uncommitted_files(root: Path, selected_paths: list[str]) -> list[str]:
    """Return the declarations that differ from the merge base of HEAD and the branch of declarations at origin.

    If origin has no such branch, return the declarations that differ from HEAD. If `selected_paths` is not empty,
    leave out the files of tenants outside these paths.
    """
    from allotment.adapters.git.repository import Repository
    from allotment.adapters.git.uncommitted import unmerged_files
    from allotment.branches.merged_branch import find_fetched_branch

    names = unmerged_files(root, find_fetched_branch(root, Repository(root)))
    return [
        name
        for name in names
        if not selected_paths or not name.startswith("tenants/") or _is_in_folders(name, selected_paths)
    ]


def _is_in_folders(path: str, folders: Iterable[str]) -> bool:
    return any(folder in ("", path) or path.startswith(f"{folder}/") for folder in folders)


def _has_commits(root: Path) -> bool:
    """Return whether the repository has a commit."""
    from allotment.adapters.git.repository import Repository

    return Repository(root).has_commits()


def _print_problems(check: RepositoryCheck, style: str, selected_paths: list[str], source: Source, root: Path) -> int:
    problems, scope = check.problems, CheckedScope(check.file_count, len(check.tally_entries))
    if selected_paths and "" not in selected_paths:
        problems = [
            *_warn_about_other_paths(selected_paths),
            *(problem for problem in problems if problem.touches(selected_paths)),
        ]
        scope = CheckedScope(
            _count_files(check, source, selected_paths),
            elsewhere=_count_errors(check.problems) - _count_errors(problems),
        )
    if style == "text":
        click.echo(as_text(problems, scope, _create_problem_context(source, root)), nl=False)
    else:
        click.echo(FORMATS[style](problems, scope), nl=False)
    if scope.elsewhere and style == "gitlab":
        click.echo(scope.elsewhere_summary, err=True)
    if check.tracebacks:
        from allotment.cli.crash import report_tenant_bugs

        report_tenant_bugs(check.tracebacks)
    return 1 if _count_errors(problems) else 0


def _print_open_blanks(root: Path) -> None:
    """Print how many values in the list of README.md nobody has ticked off, if there are any."""
    from allotment.starter.repository import count_open_blanks

    try:
        readme = (root / "README.md").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    if count := count_open_blanks(readme):
        them = pronoun_for(count)
        click.echo(
            f"README.md lists {pluralize(count, 'value')} of `allot init` as not filled in: replace {them}, and tick {them} off there"
        )


def _create_problem_context(source: Source, root: Path) -> ProblemContext:
    """Return the context for the text output.

    Paths are relative to the working directory if it is in the repository. On a terminal, the output also shows the
    line of each problem.
    """
    inner = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(root))
    file_lines: dict[str, list[str]] = {}

    def path(text: str) -> str:
        stands_elsewhere = inner == os.pardir or inner.startswith(f"{os.pardir}{os.sep}")
        return text if stands_elsewhere or inner == os.curdir else os.path.relpath(text, inner)

    def line(text: str, number: int) -> str | None:
        if text not in file_lines:
            try:
                file_lines[text] = source.read(text).decode("utf-8").split("\n")
            except (OSError, ValueError):  # the file is gone, or is not text
                file_lines[text] = []
        return file_lines[text][number - 1] if 0 < number <= len(file_lines[text]) else None

    return ProblemContext(path, line if sys.stdout.isatty() else None)


def _warn_about_other_paths(selected_paths: list[str]) -> Iterator[Problem]:
    """Yield a warning for each selected path that cannot contain declarations."""
    from allotment.adapters.declaration_source import path_problem
    from allotment.declared.layout import ROOTS

    message = f"the file is outside the folders of declarations, {', '.join(sorted(ROOTS))}, so it is ignored"
    for path in sorted(set(selected_paths)):
        if path.split("/")[0] not in ROOTS:
            yield path_problem(path, message, "layout")._replace(warning=True)


def _count_errors(problems: list[Problem]) -> int:
    return sum(not problem.warning for problem in problems)


def _count_files(check: RepositoryCheck, source: Source, selected_paths: list[str]) -> int:
    """Return the number of declarations at or below the selected paths.

    The number leaves out the files in folders that the check does not read, such as a folder behind a symbolic link.
    """
    from allotment.declared.layout import PLATFORM, ROOTS, Scope, scope_of

    clusters = {Scope("cluster", name) for name in check.catalog.clusters}
    scopes = {PLATFORM, *clusters, *(Scope("tenant", name) for name in check.tally_entries)}
    direct = {scope_of(f"{folder}/") for folder in selected_paths if folder.split("/")[0] in ROOTS}
    count = 0
    for scope in scopes if {"clusters", "tenants"} & set(selected_paths) else scopes & direct:
        with contextlib.suppress(FileNotFoundError):  # raised if the scope has no folder
            count += sum(_is_in_folders(path, selected_paths) for path in source.files(scope).paths)
    return count


def _watch_files(
    root: Path,
    check_all: Callable[[], RepositoryCheck],
    compares: bool,
    show: Callable[[RepositoryCheck], int],
    changed: Callable[[], list[str]],
) -> None:
    """Check the declarations again after every change of a file, and show the problems.

    If there is a base (`compares`), or if a file of the platform or of a cluster changed, it checks all declarations.
    Otherwise it checks only the tenants with changed files.
    """
    from watchfiles import watch

    from allotment.adapters.folder_source import FolderSource
    from allotment.services.check.check_options import Comparison
    from allotment.services.check.incremental_check import IncrementalCheck

    roots = [root / name for name in ("platform", "clusters", "tenants") if (root / name).is_dir()]
    watcher = watch(*roots, debounce=100, step=20, yield_on_timeout=True, rust_timeout=_WATCH_TIMEOUT)
    next(watcher)  # from now on it notes all changes, also those during the first check
    incremental = IncrementalCheck(check_all, Comparison(changed_files=changed), always_checks_all=compares)
    click.clear()
    show(incremental.last)
    for changes in watcher:
        if not changes:
            continue
        paths = [Path(path).relative_to(root).as_posix() for _, path in changes]
        check = incremental.update(FolderSource(root), paths)
        click.clear()
        show(check)
