"""Git's object reader: one process, asked how large an object is before it is asked for the object.

Who pushes chooses what the objects hold, and a pack of 50 KB unfolds to gigabytes. So nothing is read here without a
limit, and no more is held at once than `MAX_BATCH_BYTES`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from allotment.problems import OperationRefused, escape_unprintable

BATCH_SIZE = 500  # objects asked for at once: their ids fit a pipe
MAX_BATCH_BYTES = 8 << 20  # bytes of answers
OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class LimitExceeded(OperationRefused):
    """More than a repository of declarations, or a change of it, may have."""


class ObjectInfo(NamedTuple):
    """What kind of object it is, in Git's word, and its bytes; of one that isn't here the kind is empty."""

    kind: str
    size: int


class _ReaderExited(Exception):
    """The object reader ended before it had answered."""


class ObjectReader:
    """Reads objects by their ids. `begin` starts `git cat-file --batch-command --buffer`."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._start_reader = begin
        self._reader: tuple[int, Any, Any] | None = None

    def close(self) -> None:
        """End the reader. The next question starts a new reader, which opens the packs of that time."""
        if self._reader is not None:
            self._reader[2]()
            self._reader = None

    def info(self, ids: Iterable[str]) -> dict[str, ObjectInfo]:
        """Return what each object is, without reading it."""
        infos: dict[str, ObjectInfo] = {}
        for some in _id_batches(ids):
            with self._request("info", some) as pipe:
                infos |= zip(some, map(_parse_info, _read_lines(pipe, len(some))), strict=True)
        return infos

    def resolve_commit(self, name: str) -> str | None:
        """Return the id of the commit that a name means, which is one line; None where it means none."""
        with self._request("info", [f"{name}^{{commit}}"]) as pipe:
            words = _read_lines(pipe, 1)[0].split()
        return words[0].decode("ascii") if len(words) == 3 and words[1] == b"commit" else None

    def read(self, ids: Iterable[str], kind: str, most: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield each different object of a kind with its bytes, in the order of `ids`; None for one of more than
        `most` bytes, which isn't read. Raises OperationRefused where one is of another kind, or isn't here."""
        for some in _id_batches(ids):
            infos = self.info(some)
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
        """Return objects whose sizes are known, and with them where each begins in the answer."""
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
        """Ask, and give the pipe to read all answers from: nothing is left in it for the next question."""
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
            status = process.proc.wait()
            self._reader = None
            end()
            if status == -signal.SIGINT:  # a person's interrupt goes to all processes, and came there first
                raise KeyboardInterrupt from None
            raise OperationRefused(
                f"git cat-file ended before it had answered: {escape_unprintable(errors, 1000) or 'the repository may be damaged'}"
            ) from None
        except BaseException:  # what it would still say is no answer to whatever is asked next
            self._reader = None
            end()
            raise


def _id_batches(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the different ids, as many at once as may be asked for."""
    different = list(dict.fromkeys(ids))
    for at in range(0, len(different), BATCH_SIZE):
        yield different[at : at + BATCH_SIZE]


def _read_lines(pipe: Any, count: int) -> list[bytes]:
    """Return so many lines."""
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
    """End an object reader, in the process that began it. Its pipes may be open in processes that were forked since,
    so that closing ours wouldn't end it."""
    if os.getpid() == owner:
        process.proc.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):  # what was still to be written
                pipe.close()
        process.proc.wait()
