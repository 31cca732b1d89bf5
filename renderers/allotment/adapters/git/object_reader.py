"""Reads objects through Git's object reader, which reports the size of an object before the object is requested.

A pusher chooses the content of objects, and a pack of 50 KB can expand to gigabytes. Every read therefore has a size
limit for each object. One request is for at most `MAX_BATCH_BYTES`, or for a single larger object.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from allotment.problems import OperationRefused, escape_unprintable

BATCH_SIZE = 500  # objects per request: their ids fit into a pipe
MAX_BATCH_BYTES = 8 << 20  # bytes of a response with more than one object
_readers: weakref.WeakSet[ObjectReader] = weakref.WeakSet()  # all readers of this process
OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class LimitExceeded(OperationRefused):
    """An object or a change is larger than Allotment allows in a repository of declarations."""


class ObjectInfo(NamedTuple):
    """An object's kind, as Git names it, and its size in bytes. The kind of a missing object is empty."""

    kind: str
    size: int


class _ReaderExited(Exception):
    """The object reader ended before it had answered."""


class ObjectReader:
    """Reads objects of the repository at `folder` by their ids. `begin` must start `git cat-file --batch-command --buffer`.

    The process runs from the first request until `close`. The owner of the reader must call `close`.
    """

    def __init__(self, folder: Path, begin: Callable[[], Any]) -> None:
        self.folder = folder
        self._start_reader = begin
        self._reader: tuple[int, Any, Any] | None = None
        _readers.add(self)

    @property
    def is_open(self) -> bool:
        """Return whether the reader process runs, as far as this process knows."""
        return self._reader is not None and self._reader[0] == os.getpid()

    def close(self) -> None:
        """End the reader process. The next request starts a new process, which also finds newer packs."""
        if self._reader is not None:
            self._reader[2]()
            self._reader = None

    def info(self, ids: Iterable[str]) -> dict[str, ObjectInfo]:
        """Return the kind and size of each object, without reading the objects."""
        infos: dict[str, ObjectInfo] = {}
        for batch in _id_batches(ids):
            with self._request("info", batch) as pipe:
                infos |= zip(batch, map(_parse_info, _read_lines(pipe, len(batch))), strict=True)
        return infos

    def resolve_commit(self, name: str) -> str | None:
        """Return the id of the commit that a name resolves to; None if there is none. `name` must be a single line."""
        with self._request("info", [f"{name}^{{commit}}"]) as pipe:
            words = _read_lines(pipe, 1)[0].split()
        return words[0].decode("ascii") if len(words) == 3 and words[1] == b"commit" else None

    def read(self, ids: Iterable[str], kind: str, most: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield each distinct object with its bytes, in the order of `ids`.

        An object of more than `most` bytes isn't read: None is yielded instead of its bytes. Raises OperationRefused if
        an object is missing or is not of the kind `kind`.
        """
        for batch in _id_batches(ids):
            infos = self.info(batch)
            for object_id, info in infos.items():
                if info.kind != kind:
                    raise OperationRefused(_kind_error(object_id, kind, info))
            yield from self._read_batches(infos, most)

    def _read_batches(self, infos: dict[str, ObjectInfo], most: int) -> Iterator[tuple[str, bytes | None]]:
        batch: dict[str, ObjectInfo] = {}
        batch_bytes = 0
        for object_id, info in infos.items():
            if batch and (info.size > most or batch_bytes + info.size > MAX_BATCH_BYTES):
                yield from self._contents(batch)
                batch, batch_bytes = {}, 0
            if info.size > most:
                yield object_id, None
            else:
                batch[object_id] = info
                batch_bytes += info.size
        yield from self._contents(batch)

    def _contents(self, infos: dict[str, ObjectInfo]) -> list[tuple[str, bytes]]:
        """Return the bytes of some objects. Their sizes in `infos` determine their positions in the response."""
        if not infos:
            return []
        heads = [f"{object_id} {kind} {size}\n".encode("ascii") for object_id, (kind, size) in infos.items()]
        length = sum([len(head) for head in heads]) + sum([size + 1 for _, size in infos.values()])
        with self._request("contents", list(infos)) as pipe:
            data: bytes = pipe.read(length)
            contents, at = [], 0
            for head, (object_id, (_, size)) in zip(heads, infos.items(), strict=True):
                begin = at + len(head)
                at = begin + size + 1
                if data[begin - len(head) : begin] != head or len(data) < at:
                    raise OperationRefused(
                        f"git cat-file said something else of object {object_id}: the repository may be damaged"
                    )
                contents.append((object_id, data[begin : at - 1]))
        return contents

    @contextlib.contextmanager
    def _request(self, command: str, ids: list[str]) -> Iterator[Any]:
        """Send a request, and yield the pipe from which the caller reads the response.

        After an error, the reader process is killed. Otherwise, the rest of its response would be read as the response
        to the next request.
        """
        if self._reader is None or self._reader[0] != os.getpid():
            process = self._start_reader()
            self._reader = os.getpid(), process, weakref.finalize(self, _stop_reader, os.getpid(), process)
        _, process, end = self._reader
        try:
            process.stdin.write("".join([f"{command} {object_id}\n" for object_id in ids]).encode() + b"flush\n")
            process.stdin.flush()
            yield process.stdout
        except (_ReaderExited, BrokenPipeError):
            errors = " ".join(process.stderr.read().decode("utf-8", "replace").split())
            status = process.wait()
            self._reader = None
            end()
            if status == -signal.SIGINT:  # Ctrl-C reaches all processes, and reached Git first
                raise KeyboardInterrupt from None
            raise OperationRefused(
                f"git cat-file ended before it had answered: {escape_unprintable(errors, 1000) or 'the repository may be damaged'}"
            ) from None
        except BaseException:
            self._reader = None
            end()
            raise


def list_readers() -> list[ObjectReader]:
    """Return all readers of this process, open or closed."""
    return list(_readers)


@contextlib.contextmanager
def closing_readers() -> Iterator[None]:
    """Close, at the end of the `with` block, the readers that were created in the block. A command owns its readers."""
    earlier_readers = weakref.WeakSet(list_readers())
    try:
        yield
    finally:
        for reader in list_readers():
            if reader not in earlier_readers:
                reader.close()


def _id_batches(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the distinct ids in batches of at most BATCH_SIZE."""
    different = list(dict.fromkeys(ids))
    for at in range(0, len(different), BATCH_SIZE):
        yield different[at : at + BATCH_SIZE]


def _read_lines(pipe: Any, count: int) -> list[bytes]:
    """Return the next `count` lines."""
    text: bytes = pipe.readline()
    while text.count(b"\n") < count:
        if not (more := pipe.read1(1 << 16)):
            raise _ReaderExited
        text += more
    return text.splitlines()


def _parse_info(line: bytes) -> ObjectInfo:
    words = line.split()
    return ObjectInfo(words[1].decode("ascii"), int(words[2])) if len(words) == 3 else ObjectInfo("", 0)


def _kind_error(object_id: str, kind: str, info: ObjectInfo) -> str:
    if not info.kind:
        return f"object {object_id} isn't here: fetch the whole repository"
    return f"object {object_id} is a {info.kind} where a {kind} should be: whoever wrote what names it damaged it"


def _stop_reader(owner: int, process: Any) -> None:
    """Kill an object reader. Do nothing in a process that was forked from the process that started the reader.

    It is not enough to close the pipes: the reader does not end while a forked process also has the pipes open.
    """
    if os.getpid() == owner:
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):  # closing fails if stdin still holds input that Git has not read
                pipe.close()
        process.wait()
