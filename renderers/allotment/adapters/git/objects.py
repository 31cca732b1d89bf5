"""Git's object reader: one process, asked how large an object is before it is asked for the object.

Who pushes chooses what the objects hold, and a pack of 50 KB unfolds to gigabytes. So nothing is read here without a
limit, and no more is held at once than `MOST_HELD`.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from allotment.problems import Refused, printable

ASKED = 500  # objects asked for at once: their ids fit a pipe
MOST_HELD = 8 << 20  # bytes of answers
IS_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class TooMuch(Refused):
    """More than a repository of declarations, or a change of it, may have."""


class Info(NamedTuple):
    """What kind of object it is, in Git's word, and its bytes; of one that isn't here the kind is empty."""

    kind: str
    size: int


class _Ended(Exception):
    """The object reader ended before it had answered."""


class Objects:
    """Reads objects by their ids. `begin` starts `git cat-file --batch-command --buffer`."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._begin = begin
        self._reader: tuple[int, Any, Any] | None = None

    def close(self) -> None:
        """End the reader. The next question starts a new reader, which opens the packs of that time."""
        if self._reader is not None:
            self._reader[2]()
            self._reader = None

    def info(self, ids: Iterable[str]) -> dict[str, Info]:
        """Return what each object is, without reading it."""
        infos: dict[str, Info] = {}
        for some in _several(ids):
            with self._asked("info", some) as pipe:
                infos |= zip(some, map(_info, _lines(pipe, len(some))), strict=True)
        return infos

    def commit_named(self, name: str) -> str | None:
        """Return the id of the commit that a name means, which is one line; None where it means none."""
        with self._asked("info", [f"{name}^{{commit}}"]) as pipe:
            words = _lines(pipe, 1)[0].split()
        return words[0].decode("ascii") if len(words) == 3 and words[1] == b"commit" else None

    def read(self, ids: Iterable[str], kind: str, most: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield each different object of a kind with its bytes, in the order of `ids`; None for one of more than
        `most` bytes, which isn't read. Raises Refused where one is of another kind, or isn't here."""
        for some in _several(ids):
            infos = self.info(some)
            for object_id, info in infos.items():
                if info.kind != kind:
                    raise Refused(_not(object_id, kind, info))
            yield from self._read(infos, most)

    def _read(self, infos: dict[str, Info], most: int) -> Iterator[tuple[str, bytes | None]]:
        batch: dict[str, Info] = {}
        held = 0
        for object_id, info in infos.items():
            if batch and (info.size > most or held + info.size > MOST_HELD):
                yield from self._contents(batch)
                batch, held = {}, 0
            if info.size > most:
                yield object_id, None
            else:
                batch[object_id] = info
                held += info.size
        yield from self._contents(batch)

    def _contents(self, infos: dict[str, Info]) -> list[tuple[str, bytes]]:
        """Return objects whose sizes are known, and with them where each begins in the answer."""
        if not infos:
            return []
        heads = [f"{object_id} {kind} {size}\n".encode("ascii") for object_id, (kind, size) in infos.items()]
        length = sum([len(head) for head in heads]) + sum([size + 1 for _, size in infos.values()])
        with self._asked("contents", list(infos)) as pipe:
            data: bytes = pipe.read(length)
            contents, at = [], 0
            for head, (object_id, (_, size)) in zip(heads, infos.items(), strict=True):
                begin = at + len(head)
                at = begin + size + 1
                if data[begin - len(head) : begin] != head or len(data) < at:
                    raise Refused(
                        f"git cat-file said something else of object {object_id}: the repository may be damaged"
                    )
                contents.append((object_id, data[begin : at - 1]))
        return contents

    @contextlib.contextmanager
    def _asked(self, command: str, ids: list[str]) -> Iterator[Any]:
        """Ask, and give the pipe to read all answers from: nothing is left in it for the next question."""
        if self._reader is None or self._reader[0] != os.getpid():
            process = self._begin()
            self._reader = os.getpid(), process, weakref.finalize(self, _end, os.getpid(), process)
        _, process, end = self._reader
        try:
            process.stdin.write("".join([f"{command} {object_id}\n" for object_id in ids]).encode() + b"flush\n")
            process.stdin.flush()
            yield process.stdout
        except (_Ended, BrokenPipeError):
            errors = " ".join(process.stderr.read().decode("utf-8", "replace").split())
            status = process.proc.wait()
            self._reader = None
            end()
            if status == -signal.SIGINT:  # a person's interrupt goes to all processes, and came there first
                raise KeyboardInterrupt from None
            raise Refused(
                f"git cat-file ended before it had answered: {printable(errors, 1000) or 'the repository may be damaged'}"
            ) from None
        except BaseException:  # what it would still say is no answer to whatever is asked next
            self._reader = None
            end()
            raise


def _several(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the different ids, as many at once as may be asked for."""
    different = list(dict.fromkeys(ids))
    for at in range(0, len(different), ASKED):
        yield different[at : at + ASKED]


def _lines(pipe: Any, count: int) -> list[bytes]:
    """Return so many lines."""
    text: bytes = pipe.readline()
    while text.count(b"\n") < count:
        if not (more := pipe.read1(1 << 16)):
            raise _Ended
        text += more
    return text.splitlines()


def _info(line: bytes) -> Info:
    words = line.split()
    return Info(words[1].decode("ascii"), int(words[2])) if len(words) == 3 else Info("", 0)


def _not(object_id: str, kind: str, info: Info) -> str:
    if not info.kind:
        return f"object {object_id} isn't here: fetch the whole repository"
    return f"object {object_id} is a {info.kind} where a {kind} should be: whoever wrote what names it damaged it"


def _end(owner: int, process: Any) -> None:
    """End an object reader, in the process that began it. Its pipes may be open in processes that were forked since,
    so that closing ours wouldn't end it."""
    if os.getpid() == owner:
        process.proc.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(OSError):  # what was still to be written
                pipe.close()
        process.proc.wait()
