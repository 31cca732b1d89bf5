"""Reads declarations from a folder, with the open documents of an editor in place of their files."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from allotment.adapters.declaration_source import ScopeFiles
from allotment.adapters.folder_source import FolderSource
from allotment.declared.encoding import MAX_BYTES
from allotment.declared.layout import ROOTS, Scope, scope_of
from allotment.problems import Problem


class OverlaySource:
    """The declarations in a folder. The text of an open document replaces the content of its file.

    `documents` maps paths to texts, encoded in UTF-8. A document may have no file yet. A document is ignored if it is
    outside the folders of declarations, or if its path leads through a symbolic link or through a file.
    """

    def __init__(self, folder: FolderSource, documents: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._documents = {path: data for path, data in documents.items() if self._is_usable(path)}

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the scopes of the folder, and the scopes of the documents."""
        scopes, problems = self._folder.scopes()
        new_scopes = {scope_of(path) for path in self._documents if _has_scope(path)}.difference(scopes)
        return (sorted([*scopes, *new_scopes]) if new_scopes else scopes), problems

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return the files of a scope and its documents. A scope with documents has no stamp."""
        own = {path for path in self._documents if _has_scope(path) and scope_of(path) == scope}
        if not own:
            return self._folder.files(scope, stamped=stamped)
        try:
            listed = self._folder.files(scope)
        except FileNotFoundError:  # the documents of a new folder are not saved yet
            listed = ScopeFiles(())
        return ScopeFiles(tuple(sorted(own.union(listed.paths))), listed.problems)

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether nothing changed since the stamp. A scope with documents counts as changed."""
        has_documents = any(scope_of(path) == scope for path in self._documents if _has_scope(path))
        return not has_documents and self._folder.is_unchanged(scope, stamp)

    def read(self, path: str) -> bytes:
        """Return the text of a document or the bytes of a file, cut as `FolderSource.read` does."""
        document = self._documents.get(path)
        return self._folder.read(path) if document is None else document[: MAX_BYTES + 1]

    def _is_usable(self, path: str) -> bool:
        """Return whether a document counts as a regular file in the folder."""
        *folders, name = path.split("/")
        if not folders or folders[0] not in ROOTS or not all([*folders, name]) or {".", ".."} & {*folders, name}:
            return False
        place = str(self._folder.root)
        for part in folders:
            place = f"{place}/{part}"
            if not _is_absent_or(place, stat.S_ISDIR):
                return False
        return _is_absent_or(f"{place}/{name}", stat.S_ISREG)


def _has_scope(path: str) -> bool:
    """Return whether the source of a folder assigns a path to a scope: files directly in `tenants/` have none."""
    return path.startswith("platform/") or path.count("/") >= 2


def _is_absent_or(path: str, check: Any) -> bool:
    """Return whether a path is absent, or `check` accepts its mode. Follows no symbolic link."""
    try:
        return bool(check(os.lstat(path).st_mode))
    except FileNotFoundError:
        return True
    except (OSError, ValueError):  # the file system can't have such a path, for example because of a null byte
        return False
