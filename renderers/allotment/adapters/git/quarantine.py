"""Fetches objects of a stranger, such as the author of a pull request, within limits.

Git writes the objects into a quarantine folder. They are moved into the repository only after a successful fetch, so a
failed fetch leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from allotment.adapters.git.commands import QUIET_SETTINGS, GitResult, quote_list_path
from allotment.adapters.git.repository import Repository
from allotment.adapters.processes import Limit, ProcessLimitExceeded, run_within

MOST_BYTES = 256 << 20  # bytes of all packed objects together
# By default, Git would unpack as many deltas at once as there are processors, and also repack the repository's objects.
# Git could then need any amount of memory.
_SETTINGS = ("pack.threads=1", "maintenance.auto=false")
_MAX_OUTPUT = 20_000  # bytes


def fetch(
    repository: Repository,
    settings: tuple[str, ...],
    arguments: tuple[str, ...],
    limit: Limit,
    login: Mapping[str, str],
) -> GitResult:
    """Run `git fetch` with the given settings, arguments and variables of a login, and return its result.

    If the fetch succeeds, the fetched objects are in the repository, but no ref points at them. Raises
    ProcessLimitExceeded.
    """
    objects = repository.git.objects_folder
    configured = [word for setting in (*QUIET_SETTINGS, *settings, *_SETTINGS) for word in ("-c", setting)]
    # Git itself uses this prefix for its quarantine folders. If this process is killed, Git's maintenance therefore
    # removes the folder.
    with (
        tempfile.TemporaryDirectory(prefix="tmp_objdir-incoming-", dir=objects) as name,
        tempfile.TemporaryFile() as output,
    ):
        folder = Path(name)
        environment = {
            **repository.git.environment,
            **login,
            "GIT_OBJECT_DIRECTORY": name,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": quote_list_path(objects),
        }
        command = ("git", "-C", str(repository.git.folder), *configured, "fetch", *arguments)
        status = run_within(command, environment, limit, output.fileno(), partial(_check_size, folder))
        output.seek(0)
        ended = GitResult(status, b"", output.read(_MAX_OUTPUT).decode("utf-8", "replace"))
        if status == 0:
            _check_size(folder)  # the folder may have grown after the last check
            _move_objects(folder, objects)
    return ended


def _check_size(folder: Path) -> None:
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # `stat` fails if Git has renamed the file
            size += file.stat().st_size
    if size > MOST_BYTES:
        raise ProcessLimitExceeded(f"it has more than {MOST_BYTES >> 20} MB")


def _move_objects(folder: Path, objects: Path) -> None:
    """Move the fetched files, each index after its pack, so that a concurrent reader sees a complete pack or none."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".keep"]
    for file in sorted(files, key=lambda file: (file.suffix == ".idx", file)):
        target = objects / file.relative_to(folder)
        target.parent.mkdir(exist_ok=True)
        file.replace(target)
