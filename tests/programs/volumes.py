"""Volumes for tests of what fills them: trees of real files, what is on a volume, and processes that are killed on their way."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from allotment.programs import volume

MANY = 100_000
STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.utime", "os.chmod")


def tree(root: Path) -> None:
    """Make a folder of everything that a volume may hold: empty, sparse, linked, nested, strangely named."""
    (root / "models" / "sdxl").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "models" / "sdxl" / "weights.safetensors").write_bytes(os.urandom(300_000))
    (root / "models" / "readme.txt").write_text("read me")
    (root / "none").write_bytes(b"")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o750)
    (root / "latest").symlink_to("models/sdxl")
    (root / "dangling").symlink_to("../nowhere")
    os.link(root / "models" / "readme.txt", root / "models" / "again.txt")
    (root / "a b\n#?%é").write_text("strange")
    with open(root / "sparse", "wb") as file:
        file.truncate(8 * 1024 * 1024)
        file.seek(5 * 1024 * 1024)
        file.write(b"data")
    for at, path in enumerate(sorted(root.rglob("*"))):
        if not path.is_symlink():
            os.utime(path, ns=(10**18 + at * 10**9, 10**18 + at * 10**9))


def many(root: Path, count: int = MANY) -> None:
    """Make `count` files, all but a thousand of them in one folder."""
    (root / "flat").mkdir()
    for number in range(count - 1000):
        (root / "flat" / f"{number:06}.txt").write_bytes(b"%d" % number)
    for number in range(1000):
        folder = root / "deep" / str(number % 10) / str(number % 100)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.bin").write_bytes(os.urandom(100))


def content(root: Path) -> dict[str, tuple[object, ...]]:
    """Return what is on a volume, less what is ours: kind, mode, time and bytes by path."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if inner.parts[0] == ".allotment":
            continue
        seen = path.lstat()
        if stat.S_ISLNK(seen.st_mode):
            entries[str(inner)] = ("link", os.readlink(path))
        elif stat.S_ISDIR(seen.st_mode):
            entries[str(inner)] = ("folder", stat.S_IMODE(seen.st_mode), seen.st_mtime_ns)
        else:
            entries[str(inner)] = ("file", stat.S_IMODE(seen.st_mode), seen.st_mtime_ns, path.read_bytes())
    return entries


def files(root: Path) -> dict[str, bytes]:
    """Return the files on a volume by path, less what is ours."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] != ".allotment"
    }


def filled_by(root: Path, job: str, content: str = "") -> None:
    """Fill a volume with one file, which says who filled it."""

    def write() -> None:
        (root / "model").write_text(content or job)

    volume.fill(str(root), job, write)


def remembered(root: Path) -> dict[str, Any]:
    """Return what a volume remembers: the Jobs that began on it, and the one that completed it. Bytes where it is no JSON."""
    records: dict[str, Any] = {}
    for name in ("begun", "prepared"):
        path = root / volume.OWN / name
        if path.is_file():
            data = path.read_bytes()
            try:
                records[name] = json.loads(data)
            except (ValueError, RecursionError):
                records[name] = data
    return records


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Do work in a process of its own that is killed at its `step`-th look at or change of the disk; return whether it was."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            seen = 0

            def count(event: str, _: object) -> None:
                nonlocal seen
                if event in STEPS:
                    seen += 1
                    if seen == step:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False
