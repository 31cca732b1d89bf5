"""Copies one mounted volume into another: modes, times, links of both kinds and holes in files stay as they are.

A file appears under its name once it is whole. What is there already with the same size and time is left as it is, so that
a copy that was killed goes on where it was.
"""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys

from . import ending, volume

CHUNK = 16 * 1024 * 1024
PART = "part"


class Copy:
    """One copy of a tree; `files` and `left_out` count what was copied and what can't be."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.files = 0
        self.left_out = 0
        self._links: dict[tuple[int, int], str] = {}  # where a file with several names was copied to

    def all(self) -> None:
        """Copy everything. A folder's own mode and time are set once what is in it is there."""
        folders = [""]
        done: list[tuple[str, os.stat_result]] = []
        while folders:
            inner = folders.pop()
            try:
                entries = sorted(os.scandir(os.path.join(self.source, inner)), key=lambda entry: entry.name)
            except OSError as error:
                raise _unreadable(inner, error) from None
            for entry in entries:
                if not inner and entry.name in volume.LEFT_OUT:
                    continue
                path = os.path.join(inner, entry.name)
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    self._folder(path)
                    folders.append(path)
                    done.append((path, found))
                else:
                    self._entry(path, found)
        for path, found in reversed(done):
            _like(os.path.join(self.target, path), found)

    def _folder(self, path: str) -> None:
        target = os.path.join(self.target, path)
        if os.path.islink(target) or not os.path.isdir(target):
            _gone(target)
            os.mkdir(target, 0o700)
        else:
            os.chmod(target, 0o700)

    def _entry(self, path: str, found: os.stat_result) -> None:
        target = os.path.join(self.target, path)
        if stat.S_ISLNK(found.st_mode):
            self._symlink(path, target)
        elif not stat.S_ISREG(found.st_mode):
            print(f"left out, no file: {path!r}", file=sys.stderr)
            self.left_out += 1
        elif found.st_nlink > 1 and (first := self._links.get((found.st_dev, found.st_ino))) is not None:
            if not (os.path.lexists(target) and os.path.samestat(os.lstat(target), os.lstat(first))):
                _gone(target)
                os.link(first, target, follow_symlinks=False)
        else:
            if not _is_same(target, found):
                self._file(path, target, found)
            if found.st_nlink > 1:
                self._links[found.st_dev, found.st_ino] = target
        self.files += 1

    def _symlink(self, path: str, target: str) -> None:
        to = os.readlink(os.path.join(self.source, path))
        if os.path.islink(target) and os.readlink(target) == to:
            return
        _gone(target)
        os.symlink(to, target)

    def _file(self, path: str, target: str, found: os.stat_result) -> None:
        part = os.path.join(self.target, volume.OWN, PART)
        try:
            source = os.open(os.path.join(self.source, path), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            raise _unreadable(path, error) from None
        try:
            whole = _write(source, part, found.st_size)
        finally:
            os.close(source)
        if not whole:
            raise ending.Failed(ending.SOURCE_UNREADABLE, f"{path!r} was cut while it was read")
        _like(part, found)
        if os.path.isdir(target) and not os.path.islink(target):
            _gone(target)
        os.replace(part, target)


def _write(source: int, part: str, size: int) -> bool:
    """Write a file's data and its holes; return whether there was as much as expected."""
    _gone(part)
    target = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.truncate(target, size)
        at = 0
        while at < size:
            at, end = _data(source, at, size)
            while at < end:
                data = os.pread(source, min(CHUNK, end - at), at)
                if not data:
                    return False
                os.pwrite(target, data, at)
                at += len(data)
        return True
    finally:
        os.close(target)


def _data(source: int, at: int, size: int) -> tuple[int, int]:
    """Return where the next data of a file begins and ends; what can't say where its holes are is data to the end."""
    try:
        begin = os.lseek(source, at, os.SEEK_DATA)
        return begin, min(os.lseek(source, begin, os.SEEK_HOLE), size)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (at, size)


def _is_same(target: str, found: os.stat_result) -> bool:
    try:
        there = os.lstat(target)
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(there.st_mode)
        and (there.st_size, there.st_mtime_ns) == (found.st_size, found.st_mtime_ns)
        and stat.S_IMODE(there.st_mode) == stat.S_IMODE(found.st_mode) & 0o777
    )


def _like(path: str, found: os.stat_result) -> None:
    """Give a path the mode (less set-user-id and the like) and the time of another."""
    os.chmod(path, stat.S_IMODE(found.st_mode) & 0o777)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def _gone(path: str) -> None:
    """Take away whatever is in the way, a folder with all that is in it."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        for entry in os.scandir(path):
            _gone(entry.path)
        os.rmdir(path)


def _unreadable(path: str, error: OSError) -> ending.Failed:
    return ending.Failed(ending.SOURCE_UNREADABLE, f"{path!r} can't be read: {error.strerror}")


def copy(source: str, target: str) -> None:
    """Copy a folder's content into another, and say how much it was."""
    found = Copy(source, target)
    found.all()
    left = f", {found.left_out} left out" if found.left_out else ""
    print(f"{found.files} files copied{left}")


def main() -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    arguments.add_argument("--source", required=True)
    arguments.add_argument("--volume", required=True)
    arguments.add_argument("--job", required=True)
    found = arguments.parse_args()
    volume.run(lambda: volume.fill(found.volume, found.job, lambda: copy(found.source, found.volume)))


if __name__ == "__main__":
    main()
