"""A rendered tree in a folder of the file system, replaced whole or not at all.

What changed is written beside the folder first. The folder that holds all changes (the tree itself at most) is then
exchanged for its new self in one system call; files that stay are linked into it, so that their times and inodes
don't change. A kill at any moment leaves the old tree or the new one, and at most a folder beside it that the next
run removes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.problems import Refused, quoted

MARKER = ".allotment-tree"
MARKER_TEXT = b"This folder is written by `allot render`. It is replaced whole: keep nothing of your own here.\n"
_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2) on Linux, RENAME_SWAP of renamex_np(2) on macOS
_HERE = -100  # AT_FDCWD


class Written(NamedTuple):
    """What a write did, in files."""

    added: int
    changed: int
    removed: int
    kept: int


class TreeFolder:
    """A folder that is about to be made equal to a tree. Raises Refused when it may not be ours."""

    def __init__(self, out: Path) -> None:
        if out.is_symlink():
            raise Refused(f"{quoted(str(out))} is a symbolic link: name the folder itself")
        parent = out.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        self.out = parent.resolve() / out.absolute().name
        self.staging = self.out.with_name(f".{self.out.name}.allotment-new")
        self._lock = self._locked()
        try:
            self.existing = self._existing()
        except Refused:
            self.close()
            raise

    def _locked(self) -> int:
        """Return a lock on the staging folder, made empty: what a killed run left there goes."""
        while True:
            self.staging.mkdir(exist_ok=True)
            handle = os.open(self.staging, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.lstat(self.staging)):
                    break
            except FileNotFoundError:
                pass  # whoever had it has just finished
            except OSError:
                os.close(handle)
                raise Refused(f"another `allot render` is writing {quoted(str(self.out))}: wait for it") from None
            os.close(handle)
        for entry in self.staging.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        return handle

    def _existing(self) -> frozenset[str]:
        if not self.out.exists():
            return frozenset()
        if not self.out.is_dir():
            raise Refused(f"{quoted(str(self.out))} is a file: name a folder")
        found: set[str] = set()
        folders = [""]
        while folders:
            folder = folders.pop()
            with os.scandir(self.out / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{path}/")
                    elif not stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode) or not (
                        path.endswith(".yaml") or path == MARKER
                    ):
                        raise Refused(
                            f"{quoted(str(self.out))} holds {quoted(path)}, which `allot render` didn't write: name another folder"
                        )
                    else:
                        found.add(path)
        if found and MARKER not in found:
            raise Refused(
                f"{quoted(str(self.out))} holds files and no {MARKER}: it may be somebody else's, name another folder"
            )
        return frozenset(found)

    def stage(self, path: str, data: bytes) -> bool:
        """Keep a file's new content ready; return whether it differs from what is there. May be called in any process."""
        if path in self.existing:
            with open(self.out / path, "rb") as current:
                if current.read(len(data) + 1) == data:
                    return False
        target = f"{self.staging}/{path}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(target, flags, 0o644)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            handle = os.open(target, flags, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
        finally:
            os.close(handle)
        return True

    def commit(self, produced: dict[str, bool], selected: Callable[[str], bool]) -> Written:
        """Make the folder equal to the tree: `produced` maps each path to whether it changed.

        Of what was there, files that are `selected` and not produced go; the others stay.
        """
        produced[MARKER] = self.stage(MARKER, MARKER_TEXT)
        removed = {path for path in self.existing if path not in produced and selected(path)}
        changed = {path for path, differs in produced.items() if differs}
        result = Written(
            len(changed - self.existing - {MARKER}),
            len(changed & self.existing),
            len(removed),
            len(produced) - len(changed) - (0 if produced[MARKER] else 1),
        )
        if not self.out.exists():
            os.rename(self.staging, self.out)
        elif changed or removed:
            self._replace(changed, removed, (self.existing - removed) | produced.keys())
        self.close()
        return result

    def close(self) -> None:
        """Remove what was staged and not committed, and let others write."""
        shutil.rmtree(self.staging, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _replace(self, changed: set[str], removed: set[str], final: Iterable[str]) -> None:
        if len(changed) == 1 and not removed and os.path.isdir(os.path.dirname(self.out / next(iter(changed)))):
            path = next(iter(changed))
            os.replace(self.staging / path, self.out / path)
            return
        folder = _common_folder(changed | removed)
        while folder and not (self.out / folder).is_dir():
            folder = folder.rpartition("/")[0]
        below = f"{folder}/" if folder else ""
        (self.staging / folder).mkdir(parents=True, exist_ok=True)
        for path in final:
            if path.startswith(below) and path not in changed:
                _link(self.out / path, self.staging / path)
        _exchange(self.staging / folder, self.out / folder)


def _common_folder(paths: Iterable[str]) -> str:
    folders = [path.split("/")[:-1] for path in paths]
    common = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV):
            raise
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _exchange(new: Path, old: Path) -> None:
    """Exchange two folders in one step; where the system can't, move one away first."""
    libc = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(new), os.fsencode(old)
    if sys.platform == "darwin":
        done = libc.renamex_np(first, second, _EXCHANGE) == 0
    else:
        done = hasattr(libc, "renameat2") and libc.renameat2(_HERE, first, _HERE, second, _EXCHANGE) == 0
    if done:
        return
    code = ctypes.get_errno()
    if code not in (0, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        raise Refused(
            f"{quoted(str(old))} can't be replaced ({os.strerror(code)}): is it a mount point? Name a folder inside it"
        )
    aside = new.with_name(f"{new.name}.old")
    os.rename(old, aside)
    os.rename(new, old)
    shutil.rmtree(aside, ignore_errors=True)
