"""Copies a storage that somebody shares, from its file server: folders and files, by their names there.

What it lists is not to be trusted: a name that isn't one, or a folder that holds itself, ends the copy, and so does a
redirect to another host. Links to files come as files; links to folders are left out; links that lie on the volume already
are replaced, never followed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from . import download, ending, volume

MOST_NUMBER = 1 << 53  # of bytes, and of milliseconds since 1970 on either side
MOST_BYTES = 256 * 1024 * 1024  # of one folder's list: some two million names
DEEPEST = 64
SECONDS = 60.0


class Entry(NamedTuple):
    """A file or folder of a list; `mtime` in milliseconds."""

    name: str
    kind: str
    mtime: int
    size: int


def connect(url: str) -> http.client.HTTPConnection:
    """Return a connection inside the cluster. Who may make it, network policies say."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ending.Failed(ending.ADDRESS_REFUSED, f"{url!r} is no file server of the cluster")
    return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=SECONDS)


class Copy:
    """One copy from a server; `files` and `left_out` count what was copied and what can't be."""

    def __init__(self, web: download.Web, base: str, root: str) -> None:
        self._web = web
        self._base = base.rstrip("/")
        self._root = root
        self.files = 0
        self.left_out = 0

    def all(self) -> None:
        """Copy everything. Raises Failed."""
        folders = [("", 0)]
        while folders:
            inner, deep = folders.pop()
            if deep > DEEPEST:
                raise ending.Failed(ending.SOURCE_UNREADABLE, f"folders lie deeper than {DEEPEST}")
            for entry in self._entries(inner):
                if not inner and entry.name in volume.LEFT_OUT:
                    continue
                path = f"{inner}/{entry.name}" if inner else entry.name
                if entry.kind == "Dir":
                    download.folder(self._root, path)
                    folders.append((path, deep + 1))
                elif entry.kind in ("File", "SymlinkFile"):
                    self._file(path, entry)
                else:
                    print(f"left out, a link to a folder: {path!r}", file=sys.stderr)
                    self.left_out += 1

    def _entries(self, inner: str) -> list[Entry]:
        url = f"{self._base}/{quote(inner)}{'/' if inner else ''}?json"
        body = self._web.whole(url, MOST_BYTES)
        try:
            return [_entry(one) for one in json.loads(body)["paths"]]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            words = f"the list of {inner or '/'!r} can't be read: {type(error).__name__}: {error}"
            raise ending.Failed(ending.SOURCE_UNREADABLE, words) from None

    def _file(self, path: str, entry: Entry) -> None:
        target = os.path.join(self._root, path)
        self.files += 1
        if _is_same(target, entry):
            return
        if entry.size:
            wanted = download.Wanted(f"{self._base}/{quote(path)}", f"{path} {entry.mtime} {entry.size}", entry.size)
            part = download.fetch(self._web, wanted, self._root)
        else:
            part = os.path.join(self._root, volume.OWN, "part-empty")
            download.opened(part).close()
        os.utime(part, ns=(entry.mtime * 1_000_000,) * 2)
        download.place(part, self._root, path)


def _entry(one: Any) -> Entry:
    """Return an entry of a list. Raises ValueError, KeyError, TypeError or OverflowError where it isn't one."""
    name, kind = one["name"], one["path_type"]
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is no name")
    name.encode()
    mtime, size = int(one["mtime"]), int(one["size"] or 0)
    if not (abs(mtime) < MOST_NUMBER and 0 <= size < MOST_NUMBER):
        raise ValueError("a time or a size is out of range")
    return Entry(name, str(kind), mtime, size)


def _is_same(target: str, entry: Entry) -> bool:
    try:
        there = os.lstat(target)
    except FileNotFoundError:
        return False
    return (there.st_size, there.st_mtime_ns // 1_000_000) == (entry.size, entry.mtime) and os.path.isfile(target)


def copy(web: download.Web, base: str, root: str) -> None:
    """Copy what a server has, and say how much it was."""
    found = Copy(web, base, root)
    found.all()
    left = f", {found.left_out} left out" if found.left_out else ""
    print(f"{found.files} files copied{left}")


def main() -> None:
    """Run the program."""
    arguments = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("volume", "job", "source"):
        arguments.add_argument(f"--{name}", required=True)
    found = arguments.parse_args()
    web = download.Web(connect, stays=True)
    volume.run(lambda: volume.fill(found.volume, found.job, lambda: copy(web, found.source, found.volume)))


if __name__ == "__main__":
    main()
