"""Downloads a file or a folder of a storage.

A file goes to a temporary name in its folder, is compared by its hash, and is then renamed. The temporary name follows from the
path and the version of the file. After an interruption, the same download therefore reads only the rest.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from allotment.access.copy.transfer import FileCopy, FilePosition, Progress, Retries, copy_all, hash_file, repeat
from allotment.access.copy.upload import TEMPORARY_PREFIX as UPLOAD_PREFIX
from allotment.adapters.checkout_paths import refuse_committed_links
from allotment.adapters.file_server import FileServer, RemoteEntry, TransferError
from allotment.problems import OperationRefused, escape_unprintable, quote_value

TEMPORARY_PREFIX = ".allot-download-"
_MAX_DEPTH = 500
_TEMPORARY_PREFIXES = (TEMPORARY_PREFIX, UPLOAD_PREFIX)


class DownloadPlan(NamedTuple):
    """The local folders to create, parents first, the files to copy, and the names that are left out, with the reason."""

    folders: list[Path]
    files: list[FileCopy]
    left_out: list[tuple[str, str]]


def plan_download(server: FileServer, remote: str, target: Path, is_target_folder: bool) -> DownloadPlan:
    """Return the plan that downloads a file or folder of a storage.

    The content of a folder goes into the folder `target`. A file becomes `target`, or goes into the folder `target`. Names
    that can't be names of local files are left out. Raises TransferError, or OperationRefused if there is no such file.
    """
    base, unseen = remote.rstrip("/"), Progress(0, None)
    entry = RemoteEntry("", True, 0) if not base else repeat(unseen, lambda: server.find_entry(base))
    if entry is None:
        raise OperationRefused(f"the storage has no file or folder {quote_value(remote)}")
    if not entry.is_folder:
        if remote.endswith("/"):
            raise OperationRefused(f"{quote_value(base)} is a file on the storage: omit the last slash")
        local = target / entry.name if is_target_folder or target.is_dir() else target
        return DownloadPlan([local.parent], [FileCopy(local, base, entry.size)], [])
    plan = DownloadPlan([target], [], [])
    folders = [(base, target, 0)]
    while folders:  # a recursion would limit the depth of the folders
        folder, local_folder, depth = folders.pop()
        if depth > _MAX_DEPTH:
            raise OperationRefused(
                f"the folders on the storage are nested more than {_MAX_DEPTH} times: copy a part of them"
            )
        for child in sorted(repeat(unseen, partial(server.list_folder, folder))):
            path = f"{folder}/{child.name}"
            if not _is_local_name(child.name):
                plan.left_out.append((path, "its name can't be the name of a local file"))
            elif child.name.lower() == ".git":
                plan.left_out.append((path, "Git would run programs that it names"))
            elif child.is_folder:
                plan.folders.append(local_folder / child.name)
                folders.append((path, local_folder / child.name, depth + 1))
            elif not child.name.startswith(_TEMPORARY_PREFIXES):
                plan.files.append(FileCopy(local_folder / child.name, path, child.size))
    return plan


def download(open_server: Callable[[], FileServer], plan: DownloadPlan, progress: Progress) -> None:
    """Download the files of a plan. Raises TransferError or OperationRefused."""
    try:
        for folder in dict.fromkeys([*plan.folders, *(copy.local.parent for copy in plan.files)]):
            refuse_committed_links(folder)
        for folder in plan.folders:
            folder.mkdir(parents=True, exist_ok=True)
        copy_all(open_server, plan.files, lambda server, each: _download_file(server, each, progress), progress)
    except OSError as error:
        name = escape_unprintable(str(error.filename or "the file"))
        raise OperationRefused(f"{name} can't be written: {error.strerror}") from None


def _is_local_name(name: str) -> bool:
    """Return whether a name on the storage can be the name of a local file, and leads out of no folder."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name not in ("", ".", "..") and not any(part in name for part in ("/", "\0", os.sep, os.altsep or "/"))


def _download_file(server: FileServer, copy: FileCopy, progress: Progress) -> None:
    refuse_committed_links(copy.local)
    target = Path(os.path.realpath(copy.local))  # a link of the person stays, and its target is replaced
    if target.exists() and not target.is_file():
        raise OperationRefused(f"{escape_unprintable(str(copy.local))} is no regular file, so nothing replaces it")
    retries, mismatches, position = Retries(progress), Retries(progress), FilePosition(progress)
    while True:
        entry = repeat(progress, lambda: server.find_entry(copy.remote))
        if entry is None or entry.is_folder:
            progress.leave_out(copy.remote, "it can't be read on the storage, or is gone")
            return
        digest = repeat(progress, partial(server.read_hash, copy.remote, entry.size))
        if target.is_file() and target.stat().st_size == entry.size and hash_file(target, progress) == digest:
            position.reach(copy.size, is_sent=False)
            progress.add_file(is_copied=False)
            return
        temporary = _temporary_path(copy, target, entry)
        with _open_temporary(temporary) as file:
            try:
                _receive(server, copy, entry, file, position, retries)
            except TransferError as error:
                retries.pause(error)
                continue
            if hash_file(temporary, progress) == digest:
                temporary.replace(target)
                progress.add_file(is_copied=True)
                return
            temporary.unlink()
        mismatches.pause(TransferError(f"{quote_value(copy.remote)} changed during the copy", is_temporary=True))


@contextmanager
def _open_temporary(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file for appending. Raises OperationRefused if another process copies the same file."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(handle, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_same = os.path.exists(path) and os.path.samestat(os.fstat(handle), os.lstat(path))
        except BlockingIOError:
            is_same = False
        if not is_same:
            raise OperationRefused(
                f"another process copies to {escape_unprintable(str(path.parent))}: wait until it ends"
            )
        yield file


def _receive(
    server: FileServer, copy: FileCopy, entry: RemoteEntry, file: BinaryIO, position: FilePosition, retries: Retries
) -> None:
    """Append the rest of a remote file to its temporary file, and write it to the disk."""
    start = file.seek(0, os.SEEK_END)
    if start > entry.size:
        start = file.truncate(0)
    position.reach(start, is_sent=False)
    if start < entry.size:
        for piece in server.read_file(copy.remote, start):
            file.write(piece)
            retries.reset()
            position.reach(min(file.tell(), entry.size))
            if file.tell() > entry.size:
                break  # the hash shows that the file has changed
    if file.tell() < entry.size:
        raise TransferError("the connection ended early", is_temporary=True)
    file.flush()
    os.fsync(file.fileno())


def _temporary_path(copy: FileCopy, target: Path, entry: RemoteEntry) -> Path:
    key = hashlib.sha256(f"{copy.remote} {entry.version} {entry.size}".encode("utf-8", "surrogateescape")).hexdigest()
    return target.with_name(f"{TEMPORARY_PREFIX}{key[:32]}")
