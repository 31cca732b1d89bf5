"""The state of a language server: the repository, the open documents, and the last check of both."""

from __future__ import annotations

import datetime
import gc
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.declaration_source import Source
from allotment.adapters.folder_source import FolderSource
from allotment.adapters.overlay_source import OverlaySource
from allotment.declared.layout import ROOTS
from allotment.problems import Problem
from allotment.services.check.check_options import CheckOptions, Comparison, OpenCache
from allotment.services.check.incremental_check import IncrementalCheck
from allotment.services.check.repository_check import RepositoryCheck, check_repository

STALE_PORTION = 100  # tenants that a step checks after a change of the catalog; an edit waits for at most one step
ChooseDay = Callable[[Source], datetime.date]


class Snapshot(NamedTuple):
    """The open documents at one moment: their texts by path, and the paths of all documents that were edited in this session."""

    documents: Mapping[str, bytes]
    edited_paths: frozenset[str]


class Session:
    """The check of a repository in an editor.

    `roots` are the spellings of the path of the repository's folder: a document belongs to the repository if its path
    begins with one of them. The session follows no symbolic link below the repository. `choose_day` returns the day of
    the prices, and `open_cache` opens the cache of earlier checks.
    """

    def __init__(self, roots: Iterable[Path], choose_day: ChooseDay, open_cache: OpenCache | None) -> None:
        self._roots = [os.path.normpath(root) for root in roots]
        self._folder = FolderSource(Path(self._roots[0]))
        self._choose_day, self._open_cache = choose_day, open_cache
        self._incremental: IncrementalCheck | None = None
        self._edited_paths: frozenset[str] = frozenset()

    @property
    def last(self) -> RepositoryCheck | None:
        """The last check; None before the first check."""
        return self._incremental.last if self._incremental is not None else None

    @property
    def is_complete(self) -> bool:
        """Whether the last check is up to date for all tenants."""
        return self._incremental is not None and self._incremental.is_complete

    def find_path(self, file: str | None) -> str | None:
        """Return the path of a file in the repository; None if the file is outside the folders of declarations."""
        if not file or not os.path.isabs(file):
            return None
        file = os.path.normpath(file)
        for root in self._roots:
            if os.path.normcase(file).startswith(os.path.normcase(f"{root}{os.sep}")):
                path = file[len(root) + 1 :].replace(os.sep, "/")
                return path if path.partition("/")[0] in ROOTS else None
        return None

    def absolute_path(self, path: str) -> str:
        """Return the absolute path of a file, with the spelling of the folder that the editor uses."""
        return os.path.join(self._roots[-1], *path.split("/"))

    def open_source(self, documents: Mapping[str, bytes]) -> OverlaySource:
        """Return the source of the declarations: the folder with the open documents."""
        return OverlaySource(self._folder, documents)

    def check_changed(self, snapshot: Snapshot, paths: Iterable[str]) -> RepositoryCheck:
        """Return the check after the files at `paths` changed. The first call checks the whole repository.

        The results of tenants without a changed or open file may be stale (`is_complete`).
        """
        source = self.open_source(snapshot.documents)
        as_of = self._choose_day(source)
        self._edited_paths = snapshot.edited_paths
        if self._incremental is None:
            # One process: the server has threads, and a fork of a process with threads can deadlock.
            options = CheckOptions(open_cache=self._open_cache, processes=1)
            comparison = Comparison(changed_files=lambda: self._edited_paths)
            self._incremental = IncrementalCheck(
                lambda: check_repository(source, as_of, options, comparison), comparison
            )
            gc.freeze()  # the declarations of thousands of tenants stay, and their collection would delay an edit
            return self._incremental.last
        changed_paths = set(paths)
        if not all(path.startswith("tenants/") for path in changed_paths):
            changed_paths.update(path for path in snapshot.documents if path.startswith("tenants/"))
        return self._incremental.update_changed(source, changed_paths, as_of)

    def check_stale(self, snapshot: Snapshot) -> RepositoryCheck | None:
        """Return the check after a step over the stale tenants; None if none is stale."""
        if self._incremental is None or self._incremental.is_complete:
            return None
        return self._incremental.recheck_stale(self.open_source(snapshot.documents), STALE_PORTION)


def group_by_path(problems: Iterable[Problem]) -> dict[str, list[Problem]]:
    """Return the problems of each file."""
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(problem.path.rstrip("/"), []).append(problem)
    return groups
