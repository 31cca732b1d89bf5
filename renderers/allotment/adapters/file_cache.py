"""Caches the results of checks in a JSON file outside the repository.

The cache only saves time. A cache is treated as empty if its file is missing or damaged, or if it was written with
another key. The key covers the program and everything else on which all cached results depend.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from allotment import VERSION
from allotment.adapters.checkout_paths import is_in_checkout
from allotment.adapters.declaration_source import RACY_SECONDS

_PACKAGE = Path(__file__).resolve().parent.parent


def program_key() -> str:
    """Return a hash of the program: its source, its interpreter, and the libraries that affect a check.

    A cache of its own keeps the hash of the source, as long as no file of the source has another inode, size or time.
    """
    facts = sorted(_list_source_facts(str(_PACKAGE)))
    cache = FileCache.load(f"program-{cache_name(_PACKAGE)}", repr(facts), str)
    source_hash = cache.values.get("source")
    if source_hash is None:
        source_hash = _hash_source([path for path, *_ in facts])
        newest = max((max(times) for *_, times in facts), default=0)
        if newest < time.time_ns() - RACY_SECONDS * 10**9:
            cache.put("source", source_hash)
            cache.save()
    digest = hashlib.sha256(f"{VERSION} {sys.version} {source_hash}".encode())
    for library in ("pydantic", "pydantic_core", "yaml"):
        spec = importlib.util.find_spec(library)
        if spec is not None and spec.origin:
            status = os.stat(spec.origin)
            digest.update(f"{spec.origin} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


def _list_source_facts(folder: str) -> Iterator[tuple[str, int, int, tuple[int, int]]]:
    """Yield the path, inode, size and times in nanoseconds of each source file of the program."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _list_source_facts(entry.path)
            elif entry.name.endswith((".py", ".yaml")):
                status = entry.stat()
                yield entry.path, status.st_ino, status.st_size, (status.st_mtime_ns, status.st_ctime_ns)


def _hash_source(paths: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


# A cache is saved only if more than 1 / _MIN_CHANGES of its values changed. Computing fewer values again takes little
# time.
_MIN_CHANGES = 100
_LARGE_BYTES = 256 * 1024


class FileCache:
    """Cached values by name, which are valid for one key. The cache is saved only if enough values changed."""

    def __init__(self, path: Path | None, key: str, values: dict[str, Any]) -> None:
        self.path = path
        self.key = key
        self.values = values
        self.changed_count = 0  # changes since the cache was loaded

    @staticmethod
    def load(name: str, key: str, value_type: Any = Any) -> FileCache:
        """Return the cache of this name; an empty cache if the file is missing, is damaged or has another key.

        `value_type` is the type of the values, such as a NamedTuple.
        """
        path = _cache_path(name)
        if path is None:
            return FileCache.disabled()
        try:
            data = path.read_bytes()
            body = memoryview(data)[data.index(b"\n") + 1 :]
            if data.startswith(_body_checksum(key, body) + b"\n"):
                return FileCache(path, key, msgspec.json.decode(body, type=dict[str, value_type]))
        except (OSError, ValueError, msgspec.MsgspecError):
            pass
        return FileCache(path, key, {})

    @staticmethod
    def read_first_fields(name: str) -> dict[str, Any]:
        """Return the first field of each value in the file of a cache with any key. Each value is a list.

        Raises OSError or MsgspecError if the file is missing or damaged.
        """
        path = _cache_path(name)
        if path is None:
            raise FileNotFoundError(name)
        _, _, body = path.read_bytes().partition(b"\n")
        values = msgspec.json.decode(body, type=dict[str, list[msgspec.Raw]])
        return {name: msgspec.json.decode(fields[0]) for name, fields in values.items() if fields}

    @staticmethod
    def disabled() -> FileCache:
        """Return an empty cache that is never saved."""
        return FileCache(None, "", {})

    def put(self, name: str, value: Any) -> None:
        """Store a value."""
        if self.values.get(name) != value:
            self.values[name] = value
            self.changed_count += 1

    def remove(self, name: str) -> None:
        """Remove a value."""
        if self.values.pop(name, None) is not None:
            self.changed_count += 1

    def keep_only(self, names: set[str]) -> None:
        """Remove all values except `names`."""
        for name in self.values.keys() - names:
            del self.values[name]
            self.changed_count += 1

    def save(self) -> None:
        """Write the cache atomically, unless too few values changed. Does nothing if the folder can't be written."""
        if self.path is None or self.changed_count * _MIN_CHANGES <= len(self.values):
            return
        body = msgspec.json.encode(self.values)
        temporary = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_bytes(_body_checksum(self.key, body) + b"\n" + body)
            os.replace(temporary, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()


def cache_name(root: Path) -> str:
    """Return the name of a repository's cache."""
    return hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _body_checksum(key: str, body: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(key.encode() + b"\n")
    digest.update(body)
    return digest.hexdigest().encode()


def is_large(name: str) -> bool:
    """Return whether the file of a cache has more than some 700 tenants."""
    try:
        path = _cache_path(name)
        return path is not None and path.stat().st_size > _LARGE_BYTES
    except OSError:
        return False


def cache_folder() -> Path:
    """Return the folder of all caches of this user. It may be absent. The XDG specification ignores a relative path."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")) / "allotment"


def _cache_path(name: str) -> Path | None:
    """Return the file of a cache; None if the folder is in a work tree, where a stranger may have committed a cache."""
    folder = cache_folder()
    return None if is_in_checkout(folder) else folder / f"{name}.json"
