"""Writes a change to the files of a work tree, and commits exactly these files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from allotment.adapters.folder_source import is_regular, write_file
from allotment.adapters.git.checkout import advance_branch
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.uncommitted import differing_paths
from allotment.edits.change_set import ChangeSet
from allotment.problems import OperationRefused, escape_unprintable, pluralize

_RECORD = "allotment-edits.json"  # in Git's folder: the contents that commands wrote and nobody has committed yet


class FolderChange:
    """A change of the files in the work tree `root`."""

    def __init__(self, root: Path, repository: Repository) -> None:
        self._root, self._repository = root, repository

    def check(self, files: Mapping[str, bytes | None]) -> None:
        """Raise OperationRefused if somebody else changed one of the files since the last commit.

        A file that an earlier command wrote may be changed again, if it still has the content that the command wrote.
        """
        for path in files:
            full = self._root / path
            if os.path.lexists(full) and not is_regular(self._root, path):
                raise OperationRefused(f"{path} is not a regular file: remove it first")
        own = self._read_record()
        foreign = [path for path in self._differing(files) if self._hash(path) != own.get(path, "")]
        if foreign:
            named = ", ".join(escape_unprintable(path) for path in foreign[:3])
            raise OperationRefused(
                f"{pluralize(len(foreign), 'file')} with uncommitted changes: {named}: commit or discard these changes first"
            )

    def write(self, files: Mapping[str, bytes | None]) -> None:
        """Write all files, or none: if a file can't be written, the former contents of the others come back."""
        former = {path: self._read(path) for path in files}
        written: list[str] = []
        try:
            for path, data in files.items():
                written.append(path)
                self._write(path, data)
        except OSError as error:
            for path in reversed(written):
                self._write(path, former[path])
            raise OperationRefused(
                f"{error.filename} can't be written: {error.strerror}; nothing was changed"
            ) from None
        self._write_record(files)

    def commit(self, change_set: ChangeSet) -> str:
        """Commit the files of a change that is written to the folder, on the current branch, and return the commit.

        Other uncommitted files and the index entries of other files stay as they are. Raises OperationRefused if no
        branch is checked out, or if another process commits at the same time.
        """
        head = self._repository.resolve_named_commit("HEAD")
        prefix = self._repository.folder_prefix(self._root)
        changes = {f"{prefix}/{path}" if prefix else path: data for path, data in change_set.files.items()}
        message = CommitMessage(f"{change_set.title}\n", self._repository.committer())
        commit = write_commit(self._repository, [head], changes, message)
        advance_branch(self._repository, head, commit, list(changes))
        self._write_record({})
        return commit

    def _differing(self, files: Mapping[str, bytes | None]) -> list[str]:
        if not self._repository.has_commits():
            return []
        prefix = self._repository.folder_prefix(self._root)
        paths = [f"{prefix}/{path}" if prefix else path for path in files]
        commit = self._repository.resolve_named_commit("HEAD")
        return [path.removeprefix(f"{prefix}/") for path in differing_paths(self._repository, commit, paths)]

    def _read(self, path: str) -> bytes | None:
        full = self._root / path
        return full.read_bytes() if full.exists() else None

    def _write(self, path: str, data: bytes | None) -> None:
        full = self._root / path
        if data is None:
            full.unlink(missing_ok=True)
            return
        full.parent.mkdir(parents=True, exist_ok=True)
        write_file(full, data)

    def _hash(self, path: str) -> str:
        data = self._read(path)
        return "removed" if data is None else hashlib.sha256(data).hexdigest()

    @property
    def _record(self) -> Path:
        return self._repository.git.work_tree_data / _RECORD

    def _read_record(self) -> dict[str, str]:
        try:
            value = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _write_record(self, files: Mapping[str, bytes | None]) -> None:
        """Record the contents of the files, and forget the files that are committed now."""
        if not self._repository.has_commits():
            return
        record = self._read_record() | {path: self._hash(path) for path in files}
        uncommitted = set(self._differing(dict.fromkeys(record)))
        record = {path: digest for path, digest in record.items() if path in uncommitted}
        write_file(self._record, json.dumps(record, sort_keys=True).encode())
