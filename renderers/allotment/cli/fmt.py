"""`allot fmt`: the canonical form, comments kept."""

from __future__ import annotations

from pathlib import Path

import click

from allotment.adapters.folder import FolderSource, write_file
from allotment.cli.options import inside, repository, repository_option
from allotment.problems import Finding, Problem


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@repository_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file isn't in its canonical form.")
def command(paths: tuple[Path, ...], repo: Path | None, check: bool) -> None:
    """Write declarations in their canonical form, comments kept.

    Fields stand in the order of `allot explain`, lists by their key, one entry a line. Only the form changes; a file
    that can't be read is left as it is.
    """
    root = repository(repo)
    wanted = [inside(root, path) for path in paths]
    source = FolderSource(root)
    changed, problems = [], []
    for scope in source.scopes()[0]:
        for path in source.files(scope).paths:
            if wanted and not any(one in ("", path) or path.startswith(f"{one}/") for one in wanted):
                continue
            data = source.read(path)
            new, wrong = _formatted(path, data)
            problems += wrong
            if new != data:
                changed.append(path)
                if not check:
                    write_file(root / path, new)
    for problem in sorted(problems):
        click.echo(str(problem))
    for path in changed:
        click.echo(f"{path}: {'not in canonical form: run `allot fmt`' if check else 'formatted'}")
    raise click.exceptions.Exit(1 if problems or (check and changed) else 0)


def _formatted(path: str, data: bytes) -> tuple[bytes, list[Problem]]:
    """Return a file's canonical form, or the file as it is and why it can't be read."""
    from allotment.declared import documents
    from allotment.declared.canonical import canonical
    from allotment.declared.layout import spot_of
    from allotment.problems import field_text

    spot = spot_of(path)
    if spot is None or isinstance(spot, Finding):
        return data, []
    document = documents.read(data)
    if document.findings:
        return data, [
            Problem(path, one.line, one.column, field_text(one.field), one.message, one.rule)
            for one in document.findings
        ]
    return canonical(data, spot.kind.model), []
