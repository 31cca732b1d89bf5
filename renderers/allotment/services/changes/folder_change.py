"""Writes a change to the files of a work tree, and commits exactly these files."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from allotment.adapters.checkout_paths import check_place
from allotment.adapters.folder_source import stage_file, write_file
from allotment.adapters.git.checkout import advance_branch
from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.uncommitted import read_staged_files
from allotment.edits.change_set import ChangeSet
from allotment.edits.operation_id import write_message
from allotment.problems import OperationRefused, escape_unprintable, pluralize

_REMOVED = "removed"
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
            check_place(self._root, path)
        foreign = sorted(self._find_foreign(files))
        if foreign:
            named = ", ".join(escape_unprintable(path) for path in foreign[:3])
            raise OperationRefused(
                f"{pluralize(len(foreign), 'file')} with uncommitted changes: {named}: commit or discard these changes first"
            )

    def find_written(self, files: Mapping[str, bytes | None]) -> list[str]:
        """Return the paths of new files that the folder has already, and that nobody has committed.

        Raises OperationRefused if such a file has other content.
        """
        written = []
        for path, data in files.items():
            here = _normalize(self._read(path))
            if here is None or data is None or here == self._read_committed(path):
                continue
            if here != _normalize(data):
                raise OperationRefused(
                    f"{path} is in the folder with other content than this command writes: commit and push it with Git, or"
                    " delete it and run the command again"
                )
            written.append(path)
        return written

    def _read_committed(self, path: str) -> bytes | None:
        if not self._repository.has_commits():
            return None
        head = self._repository.resolve_named_commit("HEAD")
        return _normalize(self._repository.read_at(head, self._inner_path(path)))

    def _find_foreign(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the files that somebody else changed in the folder or the index, also those that Git ignores."""
        if not self._repository.has_commits():
            return
        own, head = self._read_record(), self._repository.resolve_named_commit("HEAD")
        inner = {self._inner_path(path): path for path in paths}
        staged = read_staged_files(self._repository, head, inner)
        for inner_path, path in inner.items():
            here = self._read(path)
            is_own = own.get(path) == _hash(here)
            is_changed = _normalize(here) != _normalize(self._repository.read_at(head, inner_path))
            is_staged = inner_path in staged and _normalize(staged[inner_path]) != _normalize(here)
            if (is_changed and not is_own) or is_staged:
                yield path

    def _inner_path(self, path: str) -> str:
        prefix = self._repository.folder_prefix(self._root)
        return f"{prefix}/{path}" if prefix else path

    def write(self, files: Mapping[str, bytes | None], before: Mapping[str, bytes | None]) -> None:
        """Write all files. Raise OperationRefused if a file can't be written, or no longer has its content in `before`.

        All files have their former contents then. If the process is killed, the next command may change the files again,
        because the record has their new contents.
        """
        with self._lock():
            for path in files:
                if self._read(path) != before[path]:
                    raise OperationRefused(f"{path} has changed meanwhile: run the command again")
            self._replace(files, before)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Wait until no other command writes to this work tree."""
        folder = os.open(self._repository.git.work_tree_data, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _replace(self, files: Mapping[str, bytes | None], before: Mapping[str, bytes | None]) -> None:
        record = self._read_record() | {path: _hash(data) for path, data in files.items()}
        staged: dict[str, Path] = {}
        replaced: list[str] = []
        try:
            for path, data in files.items():
                if data is not None:
                    (self._root / path).parent.mkdir(parents=True, exist_ok=True)
                    staged[path] = stage_file(self._root / path, data)
            self._write_record(record)
            for path in files:
                if path in staged:
                    os.replace(staged[path], self._root / path)
                else:
                    (self._root / path).unlink(missing_ok=True)
                replaced.append(path)
        except OSError as error:
            for temporary in staged.values():
                temporary.unlink(missing_ok=True)
            for path in replaced:
                self._restore(path, before[path])
            raise OperationRefused(f"{error.filename or self._root} can't be written: {error.strerror}") from None

    def _restore(self, path: str, data: bytes | None) -> None:
        if data is None:
            (self._root / path).unlink(missing_ok=True)
        else:
            write_file(self._root / path, data)

    def commit(self, change_set: ChangeSet, operation_id: str = "") -> str:
        """Commit the files of a change that is written to the folder, on the current branch, and return the commit.

        Other uncommitted files and the index entries of other files stay as they are. Raises OperationRefused if no
        branch is checked out, if Git can't sign, or if another process commits at the same time.
        """
        head = self._repository.resolve_named_commit("HEAD")
        changes = {self._inner_path(path): data for path, data in change_set.files.items()}
        try:
            message = CommitMessage(write_message(change_set, operation_id), self._repository.committer())
            commit = write_commit(self._repository, [head], changes, message, keeps_modes=True)
            advance_branch(self._repository, head, commit, list(changes))
        except OperationRefused as error:
            if self._repository.find_commit("HEAD") != head:  # only the index is stale
                raise
            raise OperationRefused(
                f"{error}. The changed files stay in the folder: repeat the command to commit them"
            ) from None
        with self._lock():
            record = self._read_record()
            self._write_record({path: digest for path, digest in record.items() if path not in change_set.files})
        return commit

    def _read(self, path: str) -> bytes | None:
        full = self._root / path
        return full.read_bytes() if full.exists() else None

    @property
    def _record(self) -> Path:
        return self._repository.git.work_tree_data / _RECORD

    def _read_record(self) -> dict[str, str]:
        try:
            value = json.loads(self._record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _write_record(self, record: Mapping[str, str]) -> None:
        write_file(self._record, json.dumps(record, sort_keys=True).encode())


def _hash(data: bytes | None) -> str:
    return _REMOVED if data is None else hashlib.sha256(data).hexdigest()


def _normalize(data: bytes | None) -> bytes | None:
    """Return a content with the line endings that Git stores, because Git may convert those of the folder."""
    return data.replace(b"\r\n", b"\n") if data is not None else None
