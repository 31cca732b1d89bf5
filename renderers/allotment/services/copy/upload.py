"""Uploads a file or a folder to a storage.

A file goes to a temporary name in its folder, is compared by its hash, and is then renamed. The temporary name follows from the
content and the name of the file. After an interruption, the same upload therefore finds its temporary file and sends the rest.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.file_server import FileServer, TransferError
from allotment.problems import OperationRefused, escape_unprintable
from allotment.services.copy.transfer import (
    FileCopy,
    FilePosition,
    Progress,
    Retries,
    copy_all,
    hash_file,
    read_pieces,
    repeat,
)

TEMPORARY_PREFIX = ".allot-upload-"
# A request that was cut may still write. The next request repeats the last bytes, which writes the same bytes in the same place.
_REPEATED_BYTES = 1 << 20


class UploadPlan(NamedTuple):
    """The folders to create, parents first, the files to copy, and the local paths that are neither file nor folder."""

    folders: list[str]
    files: list[FileCopy]
    left_out: list[Path]


def plan_upload(source: Path, target: str, is_target_folder: bool) -> UploadPlan:
    """Return the plan that uploads a local file or folder.

    The content of a folder goes into the folder `target`. A file becomes `target`, or goes into the folder `target`. Links
    and special files are left out. Raises OperationRefused if the source can't be read.
    """
    try:
        mode = source.stat().st_mode
    except OSError as error:
        raise OperationRefused(f"{escape_unprintable(str(source))} can't be read: {error.strerror}") from None
    base = target.rstrip("/")
    if stat.S_ISREG(mode):
        remote = f"{base}/{source.name}" if is_target_folder else base
        return UploadPlan(_list_parents(remote), [FileCopy(source, remote, source.stat().st_size)], [])
    if not stat.S_ISDIR(mode):
        raise OperationRefused(f"{escape_unprintable(str(source))} is neither a file nor a folder")
    plan = UploadPlan([*_list_parents(f"{base}/x")], [], [])
    for local, remote, entry_mode, size in _walk(source, base):
        if stat.S_ISDIR(entry_mode):
            plan.folders.append(remote)
        elif stat.S_ISREG(entry_mode):
            plan.files.append(FileCopy(local, remote, size))
        else:
            plan.left_out.append(local)
    return plan


def upload(open_server: Callable[[], FileServer], plan: UploadPlan, progress: Progress) -> None:
    """Upload the files of a plan. Raises TransferError or OperationRefused."""
    with open_server() as server:
        for folder in plan.folders:
            repeat(partial(server.create_folder, folder))
    copy_all(open_server, plan.files, lambda server, each: _upload_file(server, each, progress))


def _upload_file(server: FileServer, copy: FileCopy, progress: Progress) -> None:
    digest = hash_file(copy.local)
    existing = repeat(lambda: server.find_entry(copy.remote))
    if existing is not None and existing.is_folder:
        raise OperationRefused(f"{escape_unprintable(copy.remote)} is a folder on the storage, but a file here")
    is_same_size = existing is not None and existing.size == copy.size
    if is_same_size and repeat(lambda: server.read_hash(copy.remote, copy.size)) == digest:
        progress.add_bytes(copy.size, is_sent=False)
        progress.add_file(is_copied=False)
        return
    temporary = _temporary_path(copy, digest)
    _send(server, copy, temporary, FilePosition(progress))
    if repeat(lambda: server.read_hash(temporary, copy.size)) != digest:
        repeat(lambda: server.delete(temporary))
        has_changed = hash_file(copy.local) != digest
        reason = "its content changed during the copy" if has_changed else "the storage received other bytes"
        raise TransferError(f"{escape_unprintable(str(copy.local))} is not copied, because {reason}")
    repeat(lambda: server.move(temporary, copy.remote))
    progress.add_file(is_copied=True)


def _temporary_path(copy: FileCopy, digest: str) -> str:
    folder, _, name = copy.remote.rpartition("/")
    key = hashlib.sha256(f"{digest} {name}".encode("utf-8", "surrogateescape")).hexdigest()
    return f"{folder}/{TEMPORARY_PREFIX}{key[:32]}"


def _send(server: FileServer, copy: FileCopy, temporary: str, position: FilePosition) -> None:
    """Send a file to its temporary path. Continue after the bytes that are already there, also after an error."""
    retries = Retries()
    while True:
        try:
            start = _find_start(server, copy, temporary)
            if position.reach(start, is_sent=False):
                retries.reset()
            pieces = _read_exactly(copy, start, position)
            server.write_file(temporary, pieces, copy.size - start, start)
            return
        except TransferError as error:
            retries.pause(error)


def _find_start(server: FileServer, copy: FileCopy, temporary: str) -> int:
    """Return the position from which on a file is still to be sent."""
    if copy.size <= _REPEATED_BYTES:
        return 0
    entry = server.find_entry(temporary)
    return max(0, entry.size - _REPEATED_BYTES) if entry is not None and entry.size <= copy.size else 0


def _read_exactly(copy: FileCopy, start: int, position: FilePosition) -> Iterator[bytes]:
    """Yield the bytes of a local file from `start` up to its planned size, and count them when they were sent."""
    at = start
    for piece in read_pieces(copy.local, start):
        yield piece[: copy.size - at]
        at = min(copy.size, at + len(piece))
        position.reach(at)
        if at == copy.size:
            return
    if at < copy.size:
        raise TransferError(
            f"{escape_unprintable(str(copy.local))} is not copied, because it became shorter during the copy"
        )


def _list_parents(remote: str) -> list[str]:
    """Return the folders above a remote path, without the root, parents first."""
    parts = remote.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: number + 1]) for number in range(len(parts))]


def _walk(folder: Path, remote: str) -> Iterator[tuple[Path, str, int, int]]:
    """Yield each entry below a folder, parents first: its local path, remote path, mode and size in bytes."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            local, path = folder / entry.name, f"{remote}/{entry.name}"
            yield local, path, status.st_mode, status.st_size
            if stat.S_ISDIR(status.st_mode):
                yield from _walk(local, path)
    except OSError as error:
        raise OperationRefused(f"{escape_unprintable(str(folder))} can't be read: {error.strerror}") from None
