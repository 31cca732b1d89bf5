"""The volume that is filled: one preparation at a time writes to it, and a marker, written last, says which one is complete."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import ending

OWN = ".allotment"  # the folder of ours on every volume: lock, marker, downloads that aren't complete
LEFT_OUT = frozenset((OWN, "lost+found"))
UNFINISHED = ("part", "fetched")  # how the names of what only an attempt needs begin
LOCK_SECONDS = 300.0


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
    os.makedirs(os.path.join(root, OWN), exist_ok=True)
    lock = os.open(os.path.join(root, OWN, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
    try:
        with open(os.path.join(root, OWN, "prepared"), encoding="utf-8") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(found, dict) and found.get("job") == job


def begin(root: str) -> None:
    """Take the marker away: what is on the volume isn't complete any more."""
    own = os.path.join(root, OWN)
    try:
        os.unlink(os.path.join(own, "prepared"))
    except FileNotFoundError:
        return
    _flush(own)


def complete(root: str, job: str) -> None:
    """Say that this Job has filled the volume; everything it wrote is on the disk before that."""
    own = os.path.join(root, OWN)
    os.makedirs(own, exist_ok=True)
    os.sync()
    path = os.path.join(own, "prepared")
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"job": job}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    _flush(own)
    for name in os.listdir(own):  # of earlier attempts too: nobody goes on from them any more
        if name.startswith(UNFINISHED):
            os.unlink(os.path.join(own, name))


def fill(root: str, job: str, work: Callable[[], None]) -> None:
    """Fill a volume by `work`, once: a pod that runs again goes on, and one whose predecessor was done does nothing."""
    with held(root):
        if is_complete(root, job):
            print("the volume is complete already")
            return
        begin(root)
        work()
        complete(root, job)


def _flush(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
