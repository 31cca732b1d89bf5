"""`allot init --upgrade`: updates the generated files of a repository to the version of this program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allotment.adapters.checkout_paths import check_place, is_regular
from allotment.adapters.folder_source import FolderSource, write_checkout_file
from allotment.cli.options import print_note
from allotment.problems import OperationRefused, pluralize, quote_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allotment.declared.kinds.platform import Git


def upgrade_repository(
    folder: Path, options: Mapping[str, str | None], *, sample: bool, dry_run: bool, style: str
) -> None:
    """Update the generated files of the repository in a folder, and show the difference.

    `options` has the remaining options of `allot init`. Raises UsageError for an option that applies only to a new
    repository, and OperationRefused if a file that would be overwritten has uncommitted changes.
    """
    from allotment.cli.init_files import build_generated_files
    from allotment.starter.program import parse_program
    from allotment.starter.upgrade import diff_files, generated_files

    other_options = [name for name, value in options.items() if value and name != "program"]
    if sample or other_options:
        option = "sample" if sample else other_options[0].replace("_", "-")
        raise click.UsageError(f"--{option}: only for a new repository")
    try:
        program = parse_program(options["program"] or "")
    except ValueError as error:
        raise click.UsageError(f"--program: {error}") from None
    settings = _read_settings(folder)
    new = generated_files(build_generated_files(settings.forge, settings.url, settings.branch, program))
    old = _read_generated_files(folder, new)
    changes = diff_files(old, new)
    for path in changes:
        check_place(folder, path)
    if not dry_run:
        _check_committed(folder, {path: old[path] for path in changes if path in old})
        _write_files(folder, {path: new.get(path) for path in changes})
    _print_result(folder, changes, dry_run=dry_run, style=style)


def _read_settings(folder: Path) -> Git:
    """Return the declared Git settings, such as forge and branch. Raises OperationRefused if they can't be read."""
    from allotment.declared.kinds.platform import Platform
    from allotment.declared.layout import PLATFORM
    from allotment.declared.reading import read_folder

    path = "platform/platform.yaml"
    if not is_regular(folder, path):
        raise OperationRefused(
            f"{quote_value(str(folder))} has no {path}: name the folder of a repository of declarations"
        )
    declared, problems = read_folder(PLATFORM, [(path, FolderSource(folder).read(path))])
    platform = declared.get_singleton(Platform)
    if platform is None:
        raise OperationRefused(f"{path} is invalid, so its forge is unknown: {'; '.join(map(str, sorted(problems)))}")
    return platform.model.spec.git


def _read_generated_files(folder: Path, new: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the generated files in the folder, by path.

    They include schemas and lock files that this version no longer generates.
    """
    from allotment.starter.program import PROGRAM_LOCK, REQUIREMENTS_LOCK

    schemas = [path for pattern in ("*", "output/*") for path in (folder / "schemas").glob(f"{pattern}.schema.json")]
    paths = {path.relative_to(folder).as_posix() for path in schemas} | {REQUIREMENTS_LOCK, PROGRAM_LOCK} | new.keys()
    return {path: (folder / path).read_bytes() for path in sorted(paths) if is_regular(folder, path)}


def _check_committed(folder: Path, files: Mapping[str, bytes]) -> None:
    """Raise OperationRefused if a file that would be overwritten differs from the last commit."""
    from allotment.adapters.git.repository import Repository

    repository = Repository(folder)
    head, top = (
        repository.resolve_named_commit("HEAD") if files else "",
        repository.folder_prefix(folder) if files else "",
    )
    for path, data in files.items():
        if repository.read_at(head, f"{top}/{path}" if top else path) != data:
            raise OperationRefused(
                f"{path} has changes that are not committed: commit them first, or show the difference with --dry-run"
            )


def _write_files(folder: Path, files: Mapping[str, bytes | None]) -> None:
    for path, data in files.items():
        if data is None:
            (folder / path).unlink()
        else:
            write_checkout_file(folder, path, data)


def _print_result(folder: Path, changes: Mapping[str, str], *, dry_run: bool, style: str) -> None:
    if style == "json":
        from allotment.reports import outputs
        from allotment.reports.outputs.init import InitOutput

        output = InitOutput(folder=str(folder), files=tuple(changes), blanks=(), next=(), changes=dict(changes))
        click.echo(outputs.as_json(output), nl=False)
        return
    for text in changes.values():
        click.echo(text)
    if not changes:
        print_note(f"{folder}: the generated files are up to date")
    elif dry_run:
        print_note(f"{folder}: {pluralize(len(changes), 'file')} would change; run it without --dry-run")
    else:
        print_note(f"{folder}: {pluralize(len(changes), 'file')} changed; check `git diff`, and open a pull request")
