"""A commit as a source of declarations: its blobs are read, nothing of it is checked out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from allotment.adapters.git.repository import Repository
from allotment.adapters.source import MAX_FILES, ScopeFiles, content_key, place_problem
from allotment.declared.encoding import MAX_BYTES
from allotment.declared.layout import ROOTS, Scope, scope_of
from allotment.problems import Problem, quoted

_REGULAR = ("100644", "100755")


class _Entry(NamedTuple):
    mode: str
    blob: str
    size: int
    path: str


class CommitSource:
    """The declarations in a commit. `root` lies in the repository's work tree; the commit's same folder is read."""

    def __init__(self, root: Path, ref: str) -> None:
        self.root = root
        self.ref = ref
        self._repository = Repository(root)
        self.commit = self._repository.resolve(
            f"{ref}^{{commit}}", f"{quoted(ref)} names no commit here: fetch it, or write another"
        )
        top = self._repository.open().working_tree_dir  # a bare repository has none
        prefix = root.resolve().relative_to(Path(top).resolve()).as_posix() if top else "."
        self.tree = self._repository.resolve(
            f"{self.commit}:{'' if prefix == '.' else prefix}", f"commit {self.commit[:12]} has no folder {prefix}"
        )
        self._blobs: dict[str, tuple[str, int]] = {}
        self._files: dict[Scope, list[tuple[str, str]]] = {}
        self._problems: list[Problem] = []

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the scopes that have files, and what lies beside them. A commit never changes: it is listed once."""
        if not self._files and not self._problems:
            self._list()
        return sorted(self._files), self._problems

    def _list(self) -> None:
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
        self.scopes()
        files = self._files.get(scope, [])
        key = content_key(files)
        return ScopeFiles(tuple(path for path, _ in files), (), key, key)

    def unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether the scope's blobs are those that were stamped."""
        return scope in self._files and bool(stamp == content_key(self._files[scope]))

    def read(self, path: str) -> bytes:
        """Return a file's bytes. Raises KeyError when there is none."""
        self.scopes()
        blob, size = self._blobs[path]
        if size > MAX_BYTES:
            return b" " * (MAX_BYTES + 1)
        return self._repository.read(blob)

    def _entries(self) -> Iterator[_Entry]:
        """Yield regular files below the roots; note anything else, and stop at too many."""
        arguments = ("-r", "-l", "-z", "--full-tree", self.tree, "--", *ROOTS)
        process = self._repository.open().git.ls_tree(*arguments, as_process=True)
        rest, seen = b"", 0
        try:
            while chunk := process.stdout.read(1 << 16):
                *lines, rest = (rest + chunk).split(b"\0")
                seen += len(lines)
                if seen > MAX_FILES:
                    self._problems.append(
                        place_problem(
                            "(tree)", f"more than {MAX_FILES} files: this is no repository of declarations", "size"
                        )
                    )
                    return
                for line in lines:
                    if (entry := _parsed(line, self._problems)) is not None:
                        yield entry
        finally:
            process.stdout.close()
            process.proc.terminate()
            process.proc.wait()


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
    if mode not in _REGULAR:
        what = {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, "no regular file")
        problems.append(place_problem(path, f"is {what}: replace it by the file itself", "layout"))
        return None
    return _Entry(mode, blob, int(size), path)
