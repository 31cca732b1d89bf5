"""Builds the generated files of a repository: what `allot init` writes and `allot init --upgrade` updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from allotment.cli.options import find_sample_folder

if TYPE_CHECKING:
    from allotment.edits.blanks import Blank
    from allotment.starter.program import Program


def build_generated_files(
    forge: str, url: str, branch: str, program: Program, blanks: Sequence[Blank] = (), docs_url: str | None = None
) -> dict[str, bytes]:
    """Return the files that are not declarations, by path: schemas, CI, hooks, editor settings, pins, README.

    `url` is the address of the repository at its forge.
    """
    from allotment.starter.repository import support_files

    source = find_sample_folder()
    runs, builds = (
        (source / f"requirements-{purpose}.lock").read_text(encoding="utf-8") for purpose in ("run", "build")
    )
    schemas = {f"schemas/{path}": data for path, data in read_files_below(source / "schemas")}
    docs_url = docs_url or program.find_documentation(forge, url)
    return schemas | support_files(forge, branch, program, runs=runs, builds=builds, blanks=blanks, docs_url=docs_url)


def read_files_below(folder: Path) -> list[tuple[str, bytes]]:
    """Return the path, relative to a folder, and the content of each file in the folder and its subfolders."""
    return [
        (path.relative_to(folder).as_posix(), path.read_bytes()) for path in sorted(folder.rglob("*")) if path.is_file()
    ]
