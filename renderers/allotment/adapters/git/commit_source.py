"""A commit, or a tree, as a source of declarations: its blobs are read, nothing of it is checked out."""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from allotment.adapters.git.repository import Repository
from allotment.adapters.source import MAX_FILES, ScopeFiles, content_key, place_problem
from allotment.declared.encoding import MAX_BYTES
from allotment.declared.layout import ROOTS, Scope, scope_of
from allotment.problems import Problem, quoted

NEARBY = 200  # files of a scope that are read at once
REGULAR = ("100644", "100755")


class _Entry(NamedTuple):
    mode: str
    blob: str
    size: int
    path: str


class TreeSource:
    """The declarations in a tree of Git's objects: a commit's, or one that merging would make."""

    def __init__(self, repository: Repository, tree: str) -> None:
        self.repository = repository
        self.tree = tree
        self._blobs: dict[str, tuple[str, int]] = {}
        self._files: dict[Scope, list[tuple[str, str]]] = {}
        self._problems: list[Problem] = []
        self._near: dict[str, bytes] = {}

    def changed(self, tree: str, blobs: Mapping[str, str]) -> TreeSource:
        """Return the source of another tree, which differs from this one in regular files of scopes: the blob of each by its
        path, empty where it is gone. Listing it is saved."""
        self._list()
        found = TreeSource(self.repository, tree)
        found._blobs, found._problems = dict(self._blobs), list(self._problems)
        found._files = dict(self._files)
        sizes = self.repository.sizes([blob for blob in blobs.values() if blob])
        for path, blob in blobs.items():
            scope = scope_of(path)
            files = [one for one in found._files.pop(scope, []) if one[0] != path]
            found._blobs.pop(path, None)
            if blob:
                found._blobs[path] = (blob, sizes[blob])
                files.append((path, blob))
            if files:
                found._files[scope] = sorted(files)
        return found

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the scopes that have files, and what lies beside them. A commit never changes: it is listed once."""
        self._list()
        return sorted(self._files), self._problems

    def _list(self) -> None:
        if self._files or self._problems:
            return
        grouped: dict[Scope, list[tuple[str, str]]] = {}
        for entry in self._entries():
            path = entry.path
            if path.count("/") == 1 and not path.startswith("platform/"):
                if not path.endswith("/README.md"):
                    self._problems.append(place_problem(path, "no declaration lies here: move or remove it", "layout"))
                continue
            self._blobs[path] = (entry.blob, entry.size)
            grouped.setdefault(scope_of(path), []).append((path, entry.blob))
        self._files = {scope: sorted(files) for scope, files in grouped.items()}

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return a scope's files; their content's key, which is the stamp too, comes from Git's own ids."""
        self._list()
        files = self._files.get(scope, [])
        key = content_key(files)
        return ScopeFiles(tuple(path for path, _ in files), (), key, key)

    def unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether the scope's blobs are those that were stamped."""
        return scope in self._files and bool(stamp == content_key(self._files[scope]))

    def read(self, path: str) -> bytes:
        """Return a file's bytes. Raises KeyError when there is none."""
        self._list()
        blob, size = self._blobs[path]
        if size > MAX_BYTES:
            return b" " * (MAX_BYTES + 1)
        if blob not in self._near:
            self._near = self._nearby(path)
        return self._near[blob]

    def _nearby(self, path: str) -> dict[str, bytes]:
        """Return the bytes of a file and of those after it in its scope, by blob: who reads one reads the others next."""
        files = self._files[scope_of(path)]
        at = bisect_left(files, (path, ""))
        near = [blob for one, blob in files[at : at + NEARBY] if self._blobs[one][1] <= MAX_BYTES]
        return dict(zip(near, self.repository.read_all(near), strict=True))

    def blob(self, path: str) -> str | None:
        """Return the id of a file's blob, None where there is no such file."""
        self._list()
        found = self._blobs.get(path)
        return found[0] if found else None

    def _entries(self) -> Iterator[_Entry]:
        """Yield regular files below the roots; note anything else, and stop at too many."""
        lines = self.repository.fields("ls_tree", "-r", "-l", "-z", "--full-tree", self.tree, "--", *ROOTS)
        with contextlib.closing(lines):
            for seen, line in enumerate(lines, 1):
                if seen > MAX_FILES:
                    self._problems.append(
                        place_problem(
                            "(tree)", f"more than {MAX_FILES} files: this is no repository of declarations", "size"
                        )
                    )
                    return
                if line and (entry := _parsed(line, self._problems)) is not None:
                    yield entry


class CommitSource(TreeSource):
    """The declarations in a commit. `root` lies in the repository's work tree; the commit's same folder is read."""

    def __init__(self, root: Path, ref: str) -> None:
        repository = Repository(root)
        self.root = root
        self.commit = repository.resolve(
            f"{ref}^{{commit}}", f"{quoted(ref)} names no commit here: fetch it, or write another"
        )
        prefix = repository.top(root)
        super().__init__(
            repository,
            repository.resolve(f"{self.commit}:{prefix}", f"commit {self.commit[:12]} has no folder {prefix}"),
        )


def _parsed(line: bytes, problems: list[Problem]) -> _Entry | None:
    meta, _, raw = line.partition(b"\t")
    mode, _, blob, size = meta.decode("ascii").split()
    try:
        path = raw.decode("utf-8")
    except UnicodeDecodeError:
        problems.append(
            place_problem(raw.decode("utf-8", "surrogateescape"), "has a name that is not UTF-8: rename it", "layout")
        )
        return None
    if mode not in REGULAR:
        what = {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, "no regular file")
        problems.append(place_problem(path, f"is {what}: replace it by the file itself", "layout"))
        return None
    return _Entry(mode, blob, int(size), path)
