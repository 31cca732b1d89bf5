"""Chooses the temporary name of an upload, and remembers it until the upload ends, so that a later upload continues it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import string
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.file_cache import cache_folder

_TOKEN_LENGTH = 32
_DIGITS = frozenset(string.hexdigits)


class UploadName(NamedTuple):
    """A token that only this upload uses. `is_continued` says whether an interrupted upload had the same token."""

    token: str
    is_continued: bool


def random_name() -> UploadName:
    """Return a name that no later upload continues."""
    return UploadName(secrets.token_hex(_TOKEN_LENGTH // 2), False)


@contextmanager
def reserve_name(digest: str, remote: str) -> Iterator[UploadName]:
    """Yield the name of an upload of a content to a path. The name is forgotten if the block ends without an error.

    A file of the cache remembers the name. While the upload runs, the file is locked. If another process has locked it, or
    if the cache can't be used, the name is random.
    """
    key = hashlib.sha256(f"{digest} {remote}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
    path = cache_folder() / f"{key}.upload"
    try:
        handle = _open_locked(path)
    except OSError:
        yield random_name()
        return
    try:
        yield _read_or_write_name(handle)
        with suppress(OSError):
            path.unlink()
    finally:
        os.close(handle)


def _open_locked(path: Path) -> int:
    """Return a descriptor of the file, with a lock. Raises OSError if another process has the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), os.lstat(path)):
            raise BlockingIOError(f"{path} was replaced")  # the upload that had the lock has just ended
    except OSError:
        os.close(handle)
        raise
    return handle


def _read_or_write_name(handle: int) -> UploadName:
    token = ""
    with suppress(OSError):
        token = os.pread(handle, _TOKEN_LENGTH + 1, 0).decode("ascii", "replace")
    if len(token) == _TOKEN_LENGTH and set(token) <= _DIGITS:
        return UploadName(token, True)
    name = random_name()
    with suppress(OSError):  # the disk may be full; then no later upload continues it
        os.ftruncate(handle, 0)
        os.pwrite(handle, name.token.encode(), 0)
    return name
