"""`allot fmt`: writes declarations in their canonical form, and keeps their comments."""

from __future__ import annotations

import os
from pathlib import Path

import click

from allotment.adapters.folder_source import FolderSource, write_checkout_file
from allotment.cli.options import find_repository, output_option, print_note, repository_option, to_repository_path
from allotment.problems import Problem


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@repository_option
@click.option("--check", is_flag=True, help="Write nothing. Exit with 1 if a file isn't in its canonical form.")
@click.option(
    "--fix",
    is_flag=True,
    help="Also quote values that YAML 1.1 and 1.2 read differently (1.10, no, dates), name the schema in the first line, and"
    " remove a byte order mark.",
)
@output_option()
def command(paths: tuple[Path, ...], repo: Path | None, check: bool, fix: bool, style: str) -> None:
    """Format declarations. Comments stay.

    The formatter sorts fields in the order of `allot explain` and lists by their key, with one entry for each line. It changes
    no value, and leaves a file that it cannot read unchanged.

    \b
    Examples:
      allot fmt
      allot fmt --fix tenants/solo-ada
      allot fmt --check
    """
    root = find_repository(repo)
    selected_paths = [to_repository_path(root, path) for path in paths]
    for given_path, name in zip(paths, selected_paths, strict=True):
        if not os.path.lexists(root / name):
            raise click.UsageError(f"{given_path} doesn't exist")
    from allotment.declared.formatting import format_declaration

    def is_selected(path: str) -> bool:
        return not selected_paths or any(
            prefix in ("", path) or path.startswith(f"{prefix}/") for prefix in selected_paths
        )

    source = FolderSource(root)
    changed: list[str] = []
    scopes, problems = source.scopes()
    for scope in scopes:
        files = source.files(scope)
        problems += files.problems
        for path in filter(is_selected, files.paths):
            data = source.read(path)
            new, wrong = format_declaration(path, data, fix=fix)
            problems += wrong
            if new != data:
                changed.append(path)
                if not check:
                    write_checkout_file(root, path, new)
    problems = sorted(problem for problem in problems if is_selected(problem.path))
    _print_result(problems, changed, check, style)
    raise click.exceptions.Exit(1 if problems or (check and changed) else 0)


def _print_result(problems: list[Problem], changed: list[str], check: bool, style: str) -> None:
    """Print the unreadable files, and the files that the command wrote or would write."""
    if style == "json":
        from allotment.reports import outputs
        from allotment.reports.outputs.fmt import FmtOutput
        from allotment.reports.outputs.validate import problem_output

        output = FmtOutput(changed=tuple(changed), written=not check, problems=tuple(map(problem_output, problems)))
        click.echo(outputs.as_json(output), nl=False)
        return
    for problem in problems:
        click.echo(str(problem))
    for path in changed:
        if check:
            click.echo(f"{path}: not in canonical form: run `allot fmt`")
        else:
            print_note(f"{path}: formatted")
