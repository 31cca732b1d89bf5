"""Replaces a rendered tree in a folder of the file system atomically.

`TreeFolder` writes the changed files to a second folder, adds hard links to the unchanged files there, and exchanges
both folders with one system call. If the process is killed, the folder holds either the old or the new tree, and the
next run removes the second folder. If the system call is not supported, two renames are used instead. If the process is
killed between these renames, the next run restores the old tree.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.checkout_paths import refuse_committed_links
from allotment.adapters.git.uncommitted import refuse_tracked_files
from allotment.problems import OperationRefused, quote_value

MARKER = ".allotment-tree"
MARKER_TEXT = b"This folder is written by `allot render`. It is replaced whole: keep nothing of your own here.\n"
_RENAME_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2) on Linux, RENAME_SWAP of renamex_np(2) on macOS
_AT_FDCWD = -100  # AT_FDCWD of Linux: a path is relative to the current folder


class WriteCounts(NamedTuple):
    """The number of files that a write added, changed, removed and left unchanged."""

    added: int
    changed: int
    removed: int
    unchanged: int


class TreeFolder:
    """A folder that is made equal to a rendered tree.

    During its `with` block, other runs of `allot render` that write into the same parent folder wait. Raises
    OperationRefused if the folder may belong to somebody else, or can't be read or written.
    """

    def __init__(self, out: Path) -> None:
        refuse_committed_links(out)
        parent = out.absolute().parent
        self.out = parent.resolve() / out.absolute().name
        self.staging = self.out.with_name(f".{self.out.name}.allotment-new")
        self.replaced_folder = self.out.with_name(f".{self.out.name}.allotment-old")
        refuse_tracked_files(self.out, self.staging, self.replaced_folder)
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.existing_files = _list_existing_files(self.out)
        except OSError as error:
            raise self._write_error(error) from None

    def __enter__(self) -> TreeFolder:
        try:
            self._lock = os.open(self.out.parent, os.O_RDONLY)
        except OSError as error:
            raise self._write_error(error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if self.replaced_folder.exists() and not self.out.exists():
                os.rename(self.replaced_folder, self.out)  # an earlier run was killed between its two renames
            for leftover in (self.staging, self.replaced_folder):
                if leftover.exists():
                    shutil.rmtree(leftover)
            self.existing_files = _list_existing_files(self.out)
            self.staging.mkdir()
        except OSError as error:
            os.close(self._lock)
            raise self._write_error(error) from None
        except OperationRefused:
            os.close(self._lock)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)
        os.close(self._lock)

    def _write_error(self, error: OSError) -> OperationRefused:
        return OperationRefused(
            f"{quote_value(str(self.out))} can't be written: {error.strerror}: {quote_value(str(error.filename))}"
        )

    def stage(self, path: str, data: bytes) -> bool:
        """Write a file to the staging folder if it differs from the existing file. Return whether the two files differ.

        Worker processes may call this method too.
        """
        if path in self.existing_files and (self.out / path).read_bytes() == data:
            return False
        target = self.staging / path
        try:
            target.write_bytes(data)
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return True

    def commit(self, produced: dict[str, bool], selected: Callable[[str], bool]) -> WriteCounts:
        """Make the folder equal to the tree. `produced` maps each path of the tree to the result of `stage`.

        An existing file that was not produced is removed if `selected` returns True for its path. Otherwise, the file
        stays.
        """
        produced[MARKER] = self.stage(MARKER, MARKER_TEXT)
        removed = {path for path in self.existing_files if path not in produced and selected(path)}
        changed = {path for path, differs in produced.items() if differs}
        if changed or removed:
            for path in self.existing_files - removed - changed:
                target = self.staging / path
                target.parent.mkdir(parents=True, exist_ok=True)
                _hard_link(self.out / path, target)
            _swap_folders(self.staging, self.out, self.replaced_folder)
        return WriteCounts(
            len(changed - self.existing_files - {MARKER}),
            len(changed & self.existing_files),
            len(removed),
            len(produced) - len(changed) - (0 if produced[MARKER] else 1),
        )


def _list_existing_files(out: Path) -> frozenset[str]:
    """Return the files of an earlier tree. Raises OperationRefused if the folder holds other files, and OSError if the
    folder can't be read."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise OperationRefused(f"{quote_value(str(out))} is a file or a symbolic link: name a folder")
    if not out.exists():
        return frozenset()
    if not (out / MARKER).exists() and os.listdir(out):
        raise OperationRefused(
            f"{quote_value(str(out))} holds files and no {MARKER}: it may be somebody else's, name another folder"
        )
    files, folders = set(), [""]
    for folder in folders:
        with os.scandir(out / folder) as entries:
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{path}/")
                elif entry.is_file(follow_symlinks=False) and (path == MARKER or path.endswith(".yaml")):
                    files.add(path)
                else:
                    message = f"holds {quote_value(path)}, which `allot render` didn't write: name another folder"
                    raise OperationRefused(f"{quote_value(str(out))} {message}")
    return frozenset(files)


def _hard_link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # the file system has no hard links, or limits the links per file
        shutil.copy2(source, target)


def _swap_folders(new: Path, old: Path, aside: Path) -> None:
    """Put the folder `new` in the place of the folder `old`.

    Exchanges both folders in one system call. If the call is not supported, or if `old` is missing, renames `old` to
    `aside` and `new` to `old`, and deletes `aside`. Raises OperationRefused.
    """
    libc, encoded_paths = ctypes.CDLL(None), (os.fsencode(new), os.fsencode(old))
    if sys.platform == "darwin":
        done = libc.renamex_np(*encoded_paths, _RENAME_EXCHANGE) == 0
    else:
        done = (
            hasattr(libc, "renameat2")
            and libc.renameat2(_AT_FDCWD, encoded_paths[0], _AT_FDCWD, encoded_paths[1], _RENAME_EXCHANGE) == 0
        )
    if done:
        return
    try:
        if old.exists():
            os.rename(old, aside)
        os.rename(new, old)
    except OSError as error:
        message = f"can't be replaced ({error.strerror}): is it a mount point? Name a folder inside it"
        raise OperationRefused(f"{quote_value(str(old))} {message}") from None
    shutil.rmtree(aside, ignore_errors=True)
