"""The programs beside a tenant's Jobs: those that some Job names lie in the folder, also of another version of
ours, and no others.

A Job keeps its text for as long as it stands (`volumes`), so the programs that it names aren't always those that
its storage would be rendered with today.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from allotment.lifecycle.published_manifests import read_program_names
from allotment.manifests import paths
from allotment.manifests.argo_folders import folder_of


class ProgramCheck(NamedTuple):
    """The paths of programs that Jobs name and that aren't there, and of those that are there and that no Job names."""

    missing_programs: frozenset[str]
    unreferenced_programs: frozenset[str]


def check_programs(files: Collection[str], read: Callable[[str], bytes]) -> ProgramCheck:
    """Return what is wrong with the programs among the files of some storage folders; `read` returns a file's bytes."""
    programs = frozenset(path for path in files if paths.is_programs(path))
    named = frozenset(
        f"{folder_of(path)}/{name}{paths.FILE_SUFFIX}"
        for path in files
        if path not in programs and not paths.is_marker(path)
        for name in read_program_names(read(path))
    )
    return ProgramCheck(named - programs, programs - named)
