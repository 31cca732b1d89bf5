"""The volume that is filled: one preparation at a time writes to it, and the volume itself says which may.

Its folder `.allotment` holds the lock, the list `begun` of the Jobs that began here, in that order, and the marker `prepared`, written
last, of the Job whose work is complete. So a Job that comes back, whatever became of the branch it lies in, finds what became of it here.
The volume is a tenant's: what lies there may be anything, and is read and replaced as that.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeGuard

from . import ending

OWN = ".allotment"  # the folder of ours on every volume: lock, list, marker, downloads that aren't complete
LEFT_OUT = frozenset((OWN, "lost+found"))
UNFINISHED = ("part", "fetched")  # how the names of what only an attempt needs begin
LOCK_SECONDS = 300.0
MOST_BEGUN = 1000  # Jobs that a volume remembers, the newest
MOST_BYTES = 1024 * 1024  # of the list or the marker: what is larger isn't ours
UNREADABLE = "?"  # stands for a Job that can't be read, and is no Job's name
_NAME = re.compile(r"[a-z0-9.-]{1,253}")


def run(work: Callable[[], None]) -> None:
    """Do a program's work and end the process by how it went; its words go to standard error, which is the log."""
    try:
        work()
    except ending.Failed as failure:
        print(failure, file=sys.stderr)
        sys.exit(failure.status)
    except OSError as error:
        print(f"{error.filename or 'the volume'}: {error.strerror or error}", file=sys.stderr)
        sys.exit(ending.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else 1)


@contextmanager
def held(root: str, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold the volume's lock. It is the kernel's, and goes with its process however that ends. Raises Failed(LOCKED)."""
    lock = os.open(os.path.join(_own(root), "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        until = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    words = f"another preparation holds the volume, for {seconds:.0f} s already"
                    raise ending.Failed(ending.LOCKED, words) from None
                time.sleep(min(1.0, seconds / 10))
        yield
    finally:
        os.close(lock)


def is_complete(root: str, job: str) -> bool:
    """Return whether the volume was filled by this Job, to the end."""
    return _marked(root) == job


def is_due(root: str, job: str) -> bool:
    """Return whether this Job has to fill the volume: False where it did, to the end; True the first time, and again after a crash.

    Raises Failed(SUPERSEDED) where another has begun since: this one would overwrite what that one wrote.

    A file that can't be read is no leave to overwrite: the list may hold this Job, and the marker may name it. So while there is a
    marker and one of the two can't be read, only a Job that a readable list doesn't hold goes on; for any other Failed is raised, in
    words that say what to do. Without a marker nothing is complete, and a list that can't be read keeps nobody out.
    """
    marked, begun = _marked(root), _begun(root)
    if marked == job:
        return False
    unreadable = "prepared" if marked == UNREADABLE else "begun" if begun == [UNREADABLE] else ""
    if marked and unreadable and (begun in ([], [UNREADABLE]) or job == begun[-1]):
        words = (
            f"{OWN}/{unreadable} can't be read, so nothing is overwritten: delete that file to have the volume filled"
        )
        raise ending.Failed(1, words)
    _refuse_superseded(job, _known(root))
    return True


def expect_due(root: str, job: str) -> None:
    """Raise Failed unless this Job has the volume to fill: ALREADY_COMPLETE, SUPERSEDED."""
    if not is_due(root, job):
        raise ending.Failed(ending.ALREADY_COMPLETE, "the volume is complete already")


def remember(root: str, job: str) -> None:
    """Note that this Job begins on the volume, the last so far; once that returns it is on the disk."""
    names = [name for name in _known(root) if name not in (job, UNREADABLE)]
    names = [*names, job][-MOST_BEGUN:]
    if names != _begun(root):
        _write(root, "begun", names)


def begin(root: str, job: str) -> None:
    """Note that this Job begins, and take the marker away: what is on the volume isn't complete any more."""
    remember(root, job)
    own = _own(root)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(own, "prepared"))
        _flush(own)


def complete(root: str, job: str) -> None:
    """Say that this Job has filled the volume; everything it wrote is on the disk before that.

    Raises Failed(SUPERSEDED) where another has begun since. The marker isn't asked, and the list is mended: a program that isn't ours
    may have swept both away, or brought another volume's.
    """
    own = _own(root)
    _refuse_superseded(job, _begun(root))
    os.sync()
    remember(root, job)
    _write(root, "prepared", {"job": job})
    for name in os.listdir(own):  # of earlier attempts too: nobody goes on from them any more
        if name.startswith(UNFINISHED):
            os.unlink(os.path.join(own, name))


def fill(root: str, job: str, work: Callable[[], None]) -> None:
    """Fill a volume by `work`, once: a pod that runs again goes on, and one whose predecessor was done does nothing.

    Raises Failed: LOCKED, SUPERSEDED.
    """
    with held(root):
        if not is_due(root, job):
            print("the volume is complete already")
            return
        begin(root, job)
        work()
        complete(root, job)


def _refuse_superseded(job: str, known: list[str]) -> None:
    if job in known[:-1]:
        words = "another preparation has begun on the volume since: raise spec.prepare.attempt to fill it again"
        raise ending.Failed(ending.SUPERSEDED, words)


def _known(root: str) -> list[str]:
    """Return the Jobs that began here, in that order, with the marker's: programs from before the list wrote that alone."""
    marked, begun = _marked(root), _begun(root)
    return [*begun, marked] if marked and marked not in begun else begun


def _marked(root: str) -> str:
    """Return the Job that the marker names; empty where there is no marker, UNREADABLE where it can't be read."""
    found = _read(root, "prepared")
    if found is None:
        return ""
    job = found.get("job") if isinstance(found, dict) else None
    return job if _is_name(job) else UNREADABLE


def _begun(root: str) -> list[str]:
    """Return the list; empty where there is none, UNREADABLE alone where it can't be read."""
    found = _read(root, "begun")
    if found is None:
        return []
    names = found if isinstance(found, list) else []
    return names if names and all(_is_name(one) for one in names) else [UNREADABLE]


def _is_name(one: object) -> TypeGuard[str]:
    return isinstance(one, str) and _NAME.fullmatch(one) is not None


def _own(root: str) -> str:
    """Return our folder on the volume, made if need be. Raises NotADirectoryError where something else lies there: a link leads elsewhere."""
    own = os.path.join(root, OWN)
    with suppress(FileExistsError):
        os.mkdir(own)
    if not stat.S_ISDIR(os.lstat(own).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), own)
    return own


def _read(root: str, name: str) -> object:
    """Return what a file of ours says; None where there is none, UNREADABLE where it is nothing that we wrote."""
    path = os.path.join(root, OWN, name)
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return UNREADABLE
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    try:
        found: object = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        found = None
    return UNREADABLE if found is None else found


def _write(root: str, name: str, content: object) -> None:
    """Give a file of ours its content, at once and on the disk; what lay in its place is replaced, and never followed."""
    own = _own(root)
    path = os.path.join(own, name)
    new = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(new)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    _flush(own)


def _flush(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
