"""Reads the declarations in a folder of the file system. Never follows symbolic links."""

from __future__ import annotations

import hashlib
import marshal
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from allotment.adapters.checkout_paths import check_place, refuse_submodule
from allotment.adapters.declaration_source import (
    MAX_DEPTH,
    MAX_FILES,
    RACY_SECONDS,
    ScopeFiles,
    can_be_declaration,
    path_problem,
)
from allotment.declared.encoding import MAX_BYTES
from allotment.declared.layout import PLATFORM, ROOTS, Scope, folder_of, scope_of
from allotment.problems import OperationRefused, Problem

TenantTokens = Mapping[str, str]  # the digest in the stamp of each unchanged tenant


class FolderSource:
    """The declarations in a folder of the file system.

    `valid_tokens` returns stamps that were compared with the folder already, so that `is_unchanged` need not compare
    them.
    """

    def __init__(self, root: Path, valid_tokens: Callable[[], TenantTokens] = dict) -> None:
        self.root = root
        self._valid_tokens = cache(valid_tokens)
        self._base = f"{root}/"
        self._file_counts: dict[Scope, int] = {}
        self._total_count = 0

    def scopes(self) -> tuple[list[Scope], list[Problem]]:
        """Return the platform, and each folder below `clusters` and `tenants`."""
        scopes: list[Scope] = []
        problems: list[Problem] = []
        for root in ROOTS:
            top = self.root / root
            if top.is_symlink() or not top.is_dir():
                if top.is_symlink() or top.exists():
                    problems.append(path_problem(root, "is not a folder: remove it", "layout"))
            elif root == "platform":
                scopes.append(PLATFORM)
            else:
                names, folder_problems = self._list_folders(top, root)
                kind = scope_of(f"{root}/name/").kind
                scopes += [Scope(kind, name) for name in names]
                problems += folder_problems
        return scopes, problems

    def _list_folders(self, top: Path, root: str) -> tuple[list[str], list[Problem]]:
        """Return the sorted names of the folders in `top`, and a problem for each other entry except a README.md.

        Leave out the entries that Git ignores, such as those of an editor.
        """
        names: list[str] = []
        problems_by_path: dict[str, Problem] = {}
        with os.scandir(top) as entries:
            for entry in entries:
                path = f"{root}/{entry.name}"
                if not _is_utf8(entry.name):
                    problems_by_path[path] = path_problem(path, "has a name that is not UTF-8: rename it", "layout")
                elif entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                elif entry.name != "README.md" or entry.is_symlink():
                    problems_by_path[path] = path_problem(
                        path, "no declaration belongs here: move or remove it", "layout"
                    )
        hidden = [f"{root}/{name}" for name in names if name.startswith(".")]
        ignored = _list_ignored(self.root, [*problems_by_path, *hidden])
        problems = [problem for path, problem in problems_by_path.items() if path not in ignored]
        return sorted(name for name in names if f"{root}/{name}" not in ignored), problems

    def files(self, scope: Scope, *, stamped: bool = False) -> ScopeFiles:
        """Return a scope's regular files. The stamp covers the times, size and inode of every file and folder."""
        paths: list[str] = []
        problems_by_path: dict[str, Problem] = {}
        folders = [folder_of(scope)]
        if os.path.islink(self._base + folders[0]):
            return ScopeFiles((), (path_problem(folders[0], "is not a folder: remove it", "layout"),), None)
        for folder in folders:
            with os.scandir(self._base + folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        if path.count("/") > MAX_DEPTH:
                            problems_by_path[path] = path_problem(
                                path, "no declaration lies so deep: remove it", "layout"
                            )
                        else:
                            folders.append(path)
                    elif not _is_utf8(entry.name):
                        problems_by_path[path] = path_problem(path, "has a name that is not UTF-8: rename it", "layout")
                    elif entry.is_file(follow_symlinks=False):
                        paths.append(path)
                    else:
                        file_type = "a symbolic link" if entry.is_symlink() else "no regular file"
                        problems_by_path[path] = path_problem(
                            path, f"is {file_type}: replace it by the file itself", "layout"
                        )
        ignored = _list_ignored(self.root, [*paths, *problems_by_path])
        paths = [path for path in paths if path not in ignored]
        problems = [problem for path, problem in problems_by_path.items() if path not in ignored]
        self._total_count += len(paths) - self._file_counts.get(scope, 0)
        self._file_counts[scope] = len(paths)
        if self._total_count > MAX_FILES:
            problems.append(
                path_problem(
                    folder_of(scope), f"more than {MAX_FILES} files: this is not a repository of declarations", "size"
                )
            )
            paths = []
        # A stamp would miss a change of the files in which Git finds the names to ignore.
        stamp = self._compute_stamp(folders, paths) if stamped and not problems and not ignored else None
        return ScopeFiles(tuple(sorted(paths)), tuple(problems), stamp)

    def is_unchanged(self, scope: Scope, stamp: Any) -> bool:
        """Return whether nothing changed since the stamp. A new or removed file changes the time of its folder."""
        try:
            names, token = stamp
            if scope.kind == "tenant" and self._valid_tokens().get(scope.name) == token:
                return True
            return bool(token == _digest(names, _list_facts(self._base + folder_of(scope), names.split("\n"))))
        except (OSError, AttributeError, TypeError, ValueError):
            return False

    def find_valid_tokens(self, stamps: Mapping[str, Any]) -> TenantTokens:
        """Return the digests of the valid stamps among the `stamps` of tenants."""
        return {name: stamp[1] for name, stamp in stamps.items() if self.is_unchanged(Scope("tenant", name), stamp)}

    def read(self, path: str) -> bytes:
        """Return a file's bytes, but at most one byte more than the size limit of a declaration. Raises OSError."""
        handle = os.open(self._base + path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            data = os.read(handle, MAX_BYTES + 1)
            while data and len(data) <= MAX_BYTES and (more := os.read(handle, MAX_BYTES + 1 - len(data))):
                data += more
            return data
        finally:
            os.close(handle)

    def _compute_stamp(self, folders: list[str], paths: list[str]) -> Any:
        """Return the names of all paths, without the folder of the scope, and a digest of the names and their facts.

        The first of the `folders` is the folder of the scope. The names are one text, because the cache reads a text faster than a list.
        """
        folder = folders[0]
        names = [path[len(folder) :] for path in (*folders, *paths)]
        facts = _list_facts(self._base + folder, names)
        is_racy = max(*facts[3::5], *facts[4::5]) >= time.time_ns() - RACY_SECONDS * 10**9
        if is_racy or any("\n" in name for name in names):
            return None
        text = "\n".join(names)
        return [text, _digest(text, facts)]


def _list_facts(folder: str, names: list[str]) -> list[int]:
    """Return five facts of each name: inode, mode, size, and the times of modification and change in nanoseconds."""
    lstat = os.lstat
    facts: list[int] = []
    for name in names:
        status = lstat(folder + name)
        facts += (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return facts


def _digest(names: str, facts: list[int]) -> str:
    """Return a digest of names and their facts.

    Version 2 of the format has no references, which depend on the history of an object.
    """
    return hashlib.blake2b(marshal.dumps((names, facts), 2), digest_size=16).hexdigest()


def _list_ignored(root: Path, paths: Iterable[str]) -> frozenset[str]:
    """Return those paths below `root` that Git ignores and that can't be declarations. Without a path in doubt, Git doesn't run."""
    odd = [path for path in paths if not can_be_declaration(path)]
    if not odd:
        return frozenset()
    from allotment.adapters.git.uncommitted import list_ignored

    return list_ignored(root, odd)


def _is_utf8(name: str) -> bool:
    if name.isascii():
        return True
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def find_root(start: Path) -> Path:
    """Return the root of the repository around `start`. Raises OperationRefused if there is none.

    The root is the nearest folder with the file `platform/platform.yaml`, or with both `.git` and `platform/`.
    """
    for folder in (start, *start.parents):
        if (folder / "platform" / "platform.yaml").is_file() or (
            (folder / ".git").exists() and (folder / "platform").is_dir()
        ):
            refuse_submodule(folder)
            return folder
    raise OperationRefused(
        f"no platform/platform.yaml in {start} or above: go to a repository of declarations, or name a repository with --repo"
    )


def write_file(path: Path, data: bytes) -> None:
    """Replace a file's content atomically, and keep its mode."""
    os.replace(stage_file(path, data), path)


def write_checkout_file(root: Path, path: str, data: bytes) -> None:
    """Replace a file of a checkout atomically, and create its folder. Raises OperationRefused if the path leads through a link."""
    check_place(root, path)
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    write_file(root / path, data)


def stage_file(path: Path, data: bytes) -> Path:
    """Write the new content of a file to a temporary file beside it, with its mode, and return the temporary file.

    If the content can't be written, removes the temporary file and raises OSError.
    """
    temporary = path.with_name(f".{path.name}.allotment-new")
    temporary.unlink(missing_ok=True)  # of a killed command, or a link that a stranger committed
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if path.exists():
                os.fchmod(handle, stat.S_IMODE(path.lstat().st_mode))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
