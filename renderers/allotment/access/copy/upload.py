"""Uploads a file or a folder to a storage.

A file goes to a temporary name in its folder, is compared by its hash, and is then renamed. No two uploads use the same
temporary name at the same time. After an interruption, an upload of the same content from the same machine finds its
temporary file and sends the rest (`upload_names`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from allotment.access.copy.transfer import (
    FileCopy,
    FilePosition,
    Progress,
    Retries,
    copy_all,
    hash_file,
    read_pieces,
    repeat,
)
from allotment.access.copy.upload_names import random_name, reserve_name
from allotment.adapters.checkout_paths import refuse_committed_links
from allotment.adapters.file_server import FileServer, TransferError
from allotment.problems import OperationRefused, escape_unprintable
from allotment.programs.volume import LEFT_OUT

TEMPORARY_PREFIX = ".allot-upload-"
# A request that was cut may still write. The next request repeats the last bytes, which writes the same bytes in the same place.
_REPEATED_BYTES = 1 << 20


class _PartLost(TransferError):
    """The temporary file is gone or has other bytes, so the file is to be sent again."""

    def __init__(self, message: str) -> None:
        super().__init__(message, is_temporary=True)


class UploadPlan(NamedTuple):
    """The folders to create, parents first, the files to copy, and the local paths that are left out, with the reason."""

    folders: list[str]
    files: list[FileCopy]
    left_out: list[tuple[Path, str]]


def plan_upload(source: Path, target: str, is_target_folder: bool) -> UploadPlan:
    """Return the plan that uploads a local file or folder.

    The content of a folder goes into the folder `target`. A file becomes `target`, or goes into the folder `target`. Links,
    special files, names that are not UTF-8, and the folders of the storage itself are left out. Raises OperationRefused if
    the source can't be read.
    """
    refuse_committed_links(source)
    try:
        status = source.stat()
    except OSError as error:
        raise OperationRefused(f"{escape_unprintable(str(source))} can't be read: {error.strerror}") from None
    base = target.rstrip("/")
    if stat.S_ISREG(status.st_mode):
        remote = f"{base}/{source.name}" if is_target_folder else base
        if reason := _find_obstacle(remote, status.st_mode):
            raise OperationRefused(f"{escape_unprintable(str(source))} can't be copied: {reason}")
        return UploadPlan(_list_parents(remote), [FileCopy(source, remote, status.st_size)], [])
    if not stat.S_ISDIR(status.st_mode):
        raise OperationRefused(f"{escape_unprintable(str(source))} is neither a file nor a folder")
    plan = UploadPlan([*_list_parents(f"{base}/x")], [], [])
    folders = [(source, base)]
    while folders:  # a recursion would limit the depth of the folders
        folder, remote_folder = folders.pop()
        for local, entry in _list_folder(folder):
            remote = f"{remote_folder}/{local.name}"
            if reason := _find_obstacle(remote, entry.st_mode):
                plan.left_out.append((local, reason))
            elif stat.S_ISDIR(entry.st_mode):
                plan.folders.append(remote)
                folders.append((local, remote))
            else:
                plan.files.append(FileCopy(local, remote, entry.st_size))
    return plan


def upload(open_server: Callable[[], FileServer], plan: UploadPlan, progress: Progress) -> None:
    """Upload the files of a plan. Raises TransferError or OperationRefused."""
    with open_server() as server:
        for folder in plan.folders:
            repeat(progress, partial(server.create_folder, folder))
    copy_all(open_server, plan.files, lambda server, each: _upload_file(server, each, progress), progress)


def _upload_file(server: FileServer, copy: FileCopy, progress: Progress) -> None:
    digest = hash_file(copy.local, progress)
    existing = repeat(progress, lambda: server.find_entry(copy.remote))
    if existing is not None and existing.is_folder:
        raise OperationRefused(f"{escape_unprintable(copy.remote)} is a folder on the storage, but a file here")
    # A small file is never continued.
    name = reserve_name(digest, copy.remote) if copy.size > _REPEATED_BYTES else nullcontext(random_name())
    retries, position, is_sent = Retries(progress), FilePosition(progress), False
    with name as reserved:
        temporary = f"{copy.remote.rpartition('/')[0]}/{TEMPORARY_PREFIX}{reserved.token}"
        while not _is_complete(server, copy, digest, progress):
            _send(server, copy, temporary, progress, position)
            is_sent = True
            try:
                _verify_and_rename(server, copy, temporary, digest, progress)
                break
            except _PartLost as error:
                retries.pause(error)
        else:
            if reserved.is_continued:
                repeat(progress, lambda: server.delete(temporary))
    position.reach(copy.size, is_sent=False)
    progress.add_file(is_copied=is_sent)


def _verify_and_rename(server: FileServer, copy: FileCopy, temporary: str, digest: str, progress: Progress) -> None:
    """Compare the hash of a file that was sent, and give the file its name. Raises _PartLost if the file is to be sent again.

    The file server deletes a small part of a file if its connection broke. It may notice this late, after the rest has
    arrived on another connection. A missing file may also mean that the answer to an earlier attempt to rename it is lost.
    """
    if not _has_hash(server, temporary, copy, digest, progress):
        repeat(progress, lambda: server.delete(temporary))
        name = escape_unprintable(str(copy.local))
        if hash_file(copy.local, progress) != digest:
            raise TransferError(f"{name} is not copied, because its content changed during the copy")
        raise _PartLost(f"{name} is not copied, because the storage received other bytes")
    try:
        repeat(progress, lambda: server.move(temporary, copy.remote))
    except TransferError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise _PartLost(str(error)) from None


def _is_complete(server: FileServer, copy: FileCopy, digest: str, progress: Progress) -> bool:
    """Return whether the storage has the file with its content."""
    entry = repeat(progress, lambda: server.find_entry(copy.remote))
    return entry is not None and entry.size == copy.size and _has_hash(server, copy.remote, copy, digest, progress)


def _has_hash(server: FileServer, path: str, copy: FileCopy, digest: str, progress: Progress) -> bool:
    """Return whether a file of the storage exists and has the content of the local file."""
    try:
        return repeat(progress, lambda: server.read_hash(path, copy.size)) == digest
    except TransferError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return False


def _send(server: FileServer, copy: FileCopy, temporary: str, progress: Progress, position: FilePosition) -> None:
    """Send a file to its temporary path. Continue after the bytes that are already there, also after an error."""
    retries, last_start = Retries(progress), -1
    while True:
        try:
            start = _find_start(server, copy, temporary)
            position.reach(start, is_sent=False)
            if start > last_start:
                retries.reset()
            last_start = max(last_start, start)
            _write_rest(server, copy, temporary, start, position)
            return
        except TransferError as error:
            retries.pause(error)


def _write_rest(server: FileServer, copy: FileCopy, temporary: str, start: int, position: FilePosition) -> None:
    """Send a file from a position on. Raises _PartLost if the file server has deleted the part before this position."""
    try:
        server.write_file(temporary, _read_exactly(copy, start, position), copy.size - start, start)
    except TransferError as error:
        if start and error.status == HTTPStatus.NOT_FOUND:
            raise _PartLost(str(error)) from None
        raise


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


def _list_folder(folder: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the entries of a local folder, sorted by name. Links are not followed."""
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        return [(folder / entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    except OSError as error:
        raise OperationRefused(f"{escape_unprintable(str(folder))} can't be read: {error.strerror}") from None


def _find_obstacle(remote: str, mode: int) -> str:
    """Return the reason why a local file or folder can't be copied to a path; empty if it can."""
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return "it is neither a file nor a folder"
    if remote.strip("/").split("/")[0] in LEFT_OUT:
        return "this name at the top of a storage belongs to the storage itself"
    try:
        remote.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return ""
