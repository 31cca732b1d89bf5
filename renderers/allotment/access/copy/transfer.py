"""Runs the copies of many files on several connections, repeats failed requests, and counts the progress."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple, TypeVar

from allotment.adapters.file_server import CANCELLED, FileServer, TransferError
from allotment.problems import OperationRefused, escape_unprintable

T = TypeVar("T")
CONNECTIONS = 4
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.5  # before the first repetition; the pause doubles each time
_HASH_CHUNK_BYTES = 4 << 20
_READ_CHUNK_BYTES = 1 << 20


class FileCopy(NamedTuple):
    """A file to copy: its path on the local computer, its path on the storage, and its size in bytes."""

    local: Path
    remote: str
    size: int


class Progress:
    """Counts copied files and bytes. `show` is called after each change with (bytes done, bytes in total)."""

    def __init__(self, total_bytes: int, show: Callable[[int, int], None] | None) -> None:
        self.copied_files = self.unchanged_files = self.sent_bytes = 0
        self._total_bytes, self._done_bytes = total_bytes, 0
        self._show, self._lock = show, threading.Lock()
        self._cancelled = threading.Event()
        self.left_out: list[tuple[str, str]] = []

    def cancel(self) -> None:
        """Let `check` and `pause` raise an error from now on, so that all copies end."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise TransferError if the copy was cancelled."""
        if self._cancelled.is_set():
            raise TransferError(CANCELLED)

    def pause(self, seconds: float) -> None:
        """Wait. Raise TransferError if the copy was cancelled."""
        self._cancelled.wait(seconds)
        self.check()

    def leave_out(self, name: str, reason: str) -> None:
        """Record a file that is not copied. `left_out` has its name and the reason."""
        with self._lock:
            self.left_out.append((name, reason))

    def add_bytes(self, count: int, *, is_sent: bool = True) -> None:
        """Count bytes that are done; with `is_sent` False, they were there before. Raises TransferError if cancelled."""
        self.check()
        with self._lock:
            self._done_bytes += count
            self.sent_bytes += count if is_sent else 0
            if self._show is not None:
                self._show(self._done_bytes, self._total_bytes)

    def add_file(self, *, is_copied: bool) -> None:
        """Count a file that is complete."""
        with self._lock:
            if is_copied:
                self.copied_files += 1
            else:
                self.unchanged_files += 1


class FilePosition:
    """The progress of a single file. Bytes that are sent again after an error are counted once."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._position = progress, 0

    def reach(self, position: int, *, is_sent: bool = True) -> bool:
        """Count the bytes before a position that were not counted yet. Return whether there are any."""
        if position <= self._position:
            return False
        self._progress.add_bytes(position - self._position, is_sent=is_sent)
        self._position = position
        return True


class Retries:
    """Limits the repetitions of a copy that makes no progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._failures = progress, 0

    def reset(self) -> None:
        """Start again, because the copy has made progress."""
        self._failures = 0

    def pause(self, error: TransferError) -> None:
        """Wait before a repetition. Raises the error if it is permanent, or came too often without progress."""
        self._failures += 1
        if not error.is_temporary or self._failures >= _ATTEMPTS:
            raise error
        self._progress.pause(_FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1))


def repeat(progress: Progress, request: Callable[[], T]) -> T:
    """Return the result of a request, and repeat it after temporary errors."""
    retries = Retries(progress)
    while True:
        try:
            return request()
        except TransferError as error:
            retries.pause(error)


def copy_all(
    open_server: Callable[[], FileServer],
    copies: Iterable[FileCopy],
    copy: Callable[[FileServer, FileCopy], None],
    progress: Progress,
) -> None:
    """Copy files on several connections. After the first error or an interrupt, all copies end, and it is raised."""
    local = threading.local()
    servers: list[FileServer] = []

    def run(each: FileCopy) -> None:
        progress.check()
        if not hasattr(local, "server"):
            local.server = open_server()
            servers.append(local.server)
        copy(local.server, each)

    remaining, running = iter(copies), set[Future[None]]()
    try:
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="copy") as pool:
            try:
                while True:
                    while len(running) < CONNECTIONS * 2 and (each := next(remaining, None)) is not None:
                        running.add(pool.submit(run, each))
                    if not running:
                        return
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in finished:
                        future.result()
            except BaseException:
                progress.cancel()
                for future in running:
                    future.cancel()
                for server in servers:
                    server.cancel()
                raise
    finally:
        for server in servers:
            server.close()


def hash_file(path: Path, progress: Progress) -> str:
    """Return the SHA-256 hash of a local file. Raises OperationRefused if it can't be read, TransferError if cancelled."""
    digest = hashlib.sha256()
    for piece in read_pieces(path, 0, _HASH_CHUNK_BYTES):
        progress.check()
        digest.update(piece)
    return digest.hexdigest()


def read_pieces(path: Path, start: int, chunk_bytes: int = _READ_CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the content of a local file from byte `start` on. Raises OperationRefused if it can't be read."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            while piece := file.read(chunk_bytes):
                yield piece
    except OSError as error:
        raise OperationRefused(f"{escape_unprintable(str(path))} can't be read: {error.strerror}") from None
