"""Downloads a file or a folder of a storage.

A file goes to a temporary name in its folder, is compared by its hash, and is then renamed. The temporary name follows from the
path and the version of the file. After an interruption, the same download therefore reads only the rest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.file_server import FileServer, RemoteEntry, TransferError
from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.services.copy.transfer import FileCopy, FilePosition, Progress, Retries, copy_all, hash_file, repeat
from allotment.services.copy.upload import TEMPORARY_PREFIX as UPLOAD_PREFIX

TEMPORARY_PREFIX = ".allot-download-"
_TEMPORARY_PREFIXES = (TEMPORARY_PREFIX, UPLOAD_PREFIX)


class DownloadPlan(NamedTuple):
    """The local folders to create, parents first, and the files to copy."""

    folders: list[Path]
    files: list[FileCopy]


def plan_download(server: FileServer, remote: str, target: Path, is_target_folder: bool) -> DownloadPlan:
    """Return the plan that downloads a file or folder of a storage.

    The content of a folder goes into the folder `target`. A file becomes `target`, or goes into the folder `target`. Raises
    TransferError, or OperationRefused if there is no such file, or if a name can't be a name on the local computer.
    """
    base = remote.rstrip("/")
    entry = RemoteEntry("", True, 0) if not base else repeat(lambda: server.find_entry(base))
    if entry is None:
        raise OperationRefused(f"the storage has no file or folder {quote_value(remote)}")
    if not entry.is_folder:
        if remote.endswith("/"):
            raise OperationRefused(f"{quote_value(base)} is a file on the storage: omit the last slash")
        local = target / _check_name(entry.name) if is_target_folder or target.is_dir() else target
        return DownloadPlan([local.parent], [FileCopy(local, base, entry.size)])
    plan = DownloadPlan([target], [])
    for child, path, local in _walk(server, base, target):
        if child.is_folder:
            plan.folders.append(local)
        elif not child.name.startswith(_TEMPORARY_PREFIXES):
            plan.files.append(FileCopy(local, path, child.size))
    return plan


def download(open_server: Callable[[], FileServer], plan: DownloadPlan, progress: Progress) -> None:
    """Download the files of a plan. Raises TransferError or OperationRefused."""
    try:
        for folder in plan.folders:
            folder.mkdir(parents=True, exist_ok=True)
        copy_all(open_server, plan.files, lambda server, each: _download_file(server, each, progress))
    except OSError as error:
        name = escape_unprintable(str(error.filename or "the file"))
        raise OperationRefused(f"{name} can't be written: {error.strerror}") from None


def _walk(server: FileServer, remote: str, local: Path) -> Iterator[tuple[RemoteEntry, str, Path]]:
    """Yield each entry below a remote folder, parents first, with its remote and its local path."""
    for entry in sorted(repeat(lambda: server.list_folder(remote))):
        path, here = f"{remote}/{entry.name}", local / _check_name(entry.name)
        yield entry, path, here
        if entry.is_folder:
            yield from _walk(server, path, here)


def _check_name(name: str) -> str:
    """Return a name of a remote file. Raises OperationRefused if it would lead out of the local folder."""
    if name in ("", ".", "..") or "/" in name or "\0" in name or os.sep in name or (os.altsep and os.altsep in name):
        raise OperationRefused(f"{quote_value(name)} on the storage can't be the name of a local file")
    return name


def _download_file(server: FileServer, copy: FileCopy, progress: Progress) -> None:
    retries, position = Retries(), FilePosition(progress)
    while True:
        entry = repeat(lambda: server.find_entry(copy.remote))
        if entry is None or entry.is_folder:
            raise OperationRefused(f"{quote_value(copy.remote)} on the storage is gone since the copy began")
        digest = repeat(partial(server.read_hash, copy.remote, entry.size))
        if copy.local.is_file() and copy.local.stat().st_size == entry.size and hash_file(copy.local) == digest:
            position.reach(copy.size, is_sent=False)
            progress.add_file(is_copied=False)
            return
        temporary = _temporary_path(copy, entry)
        try:
            _receive(server, copy, entry, temporary, position, retries)
        except TransferError as error:
            retries.pause(error)
            continue
        if hash_file(temporary) == digest:
            temporary.replace(copy.local)
            progress.add_file(is_copied=True)
            return
        temporary.unlink()
        retries.pause(TransferError(f"{quote_value(copy.remote)} changed during the copy", is_temporary=True))


def _receive(
    server: FileServer, copy: FileCopy, entry: RemoteEntry, temporary: Path, position: FilePosition, retries: Retries
) -> None:
    """Append the rest of a remote file to its temporary file, and write it to the disk."""
    with temporary.open("ab") as file:
        start = file.tell()
        if start > entry.size:
            start = 0
            file.truncate(0)
        position.reach(start, is_sent=False)
        if start < entry.size:
            for piece in server.read_file(copy.remote, start):
                file.write(piece)
                retries.reset()
                position.reach(file.tell())
        if file.tell() < entry.size:
            raise TransferError("the connection ended early", is_temporary=True)
        file.flush()
        os.fsync(file.fileno())


def _temporary_path(copy: FileCopy, entry: RemoteEntry) -> Path:
    key = hashlib.sha256(f"{copy.remote} {entry.version} {entry.size}".encode("utf-8", "surrogateescape")).hexdigest()
    return copy.local.with_name(f"{TEMPORARY_PREFIX}{key[:32]}")
