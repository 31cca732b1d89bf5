"""Ways in which a local clone is damaged."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

LOCKS = (
    "index.lock",
    "HEAD.lock",
    "config.lock",
    "shallow.lock",
    "packed-refs.lock",
    "refs/allotment/seen/refs/heads/main.lock",
    "objects/info/commit-graph.lock",
    "objects/pack/multi-pack-index.lock",
    "gc.pid",
)


def remove_packs(clone: Path) -> None:
    for path in packs(clone):
        path.unlink()


def truncate_pack(clone: Path) -> None:
    for path in packs(clone):
        if path.suffix == ".pack":
            path.chmod(0o644)
            os.truncate(path, path.stat().st_size // 2)


def corrupt_loose_objects(clone: Path) -> None:
    """Make every object a loose one, and overwrite the middle of each."""
    for packed in packs(clone):
        path = packed.rename(clone / packed.name)
        if path.suffix == ".pack":
            subprocess.run(["git", "-C", clone, "unpack-objects", "-q"], input=path.read_bytes(), check=True)
        path.unlink()
    loose = [path for path in (clone / "objects").glob("??/*") if path.is_file()]
    assert loose
    for path in loose:
        path.chmod(0o644)
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + b"\0" * (len(data) - len(data) // 2))


def remove_objects(clone: Path) -> None:
    (clone / "objects").rename(clone / "moved-objects")


def remove_head(clone: Path) -> None:
    (clone / "HEAD").unlink()


def packs(clone: Path) -> list[Path]:
    pack_files = list((clone / "objects/pack").glob("pack-*"))
    assert pack_files
    return pack_files


DAMAGES: tuple[Callable[[Path], None], ...] = (
    remove_packs,
    truncate_pack,
    corrupt_loose_objects,
    remove_objects,
    remove_head,
)


def leave_locks(clone: Path) -> None:
    """Leave what a Git that is killed leaves."""
    for name in LOCKS:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()


def locks(clone: Path) -> list[str]:
    return [name for name in LOCKS if (clone / name).exists()]
