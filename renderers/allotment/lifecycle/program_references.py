"""Checks that a storage folder has exactly the programs that its Jobs name.

A program is a published ConfigMap with the scripts of preparation Jobs. The manifest of a Job does not change while the
Job exists (`volume_transitions`), so a Job may name a program that only an older version of Allotment renders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from allotment.lifecycle.published_manifests import read_program_names
from allotment.manifests import paths
from allotment.manifests.argo_folders import folder_of


class ProgramCheck(NamedTuple):
    """The paths of missing programs that Jobs name, and of existing programs that no Job names."""

    missing_programs: frozenset[str]
    unreferenced_programs: frozenset[str]


def check_programs(files: Collection[str], read: Callable[[str], bytes]) -> ProgramCheck:
    """Return the missing and unreferenced programs of some storage folders; `read` returns a file's bytes."""
    programs = frozenset(path for path in files if paths.is_programs(path))
    named = frozenset(
        f"{folder_of(path)}/{name}{paths.FILE_SUFFIX}"
        for path in files
        if path not in programs and not paths.is_marker(path)
        for name in read_program_names(read(path))
    )
    return ProgramCheck(named - programs, programs - named)
