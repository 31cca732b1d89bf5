"""Creates a temporary repository with the objects of another, but not its configuration, attributes, hooks or index.

Git commands in the temporary repository run no program that the other repository names (filters, merge drivers,
fsmonitor, hooks), and write nothing to the other repository.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allotment.adapters.git.commands import GitCommands
from allotment.adapters.git.repository import Repository
from allotment.adapters.temporary_folder import temporary_folder

_SHA256_LENGTH = 64  # digits of an id
_CONFIGURATION = "[core]\n\trepositoryFormatVersion = {}\n\tbare = true\n"
_OBJECT_FORMAT = "[extensions]\n\tobjectFormat = sha256\n"


def open_offline(root: Path) -> Repository:
    """Return the repository around a folder. Git has no network access there, so it doesn't fetch missing objects."""
    return Repository(root, GitCommands(root, offline=True))


@contextmanager
def sandbox_repository(repository: Repository, commit: str) -> Iterator[Repository]:
    """Yield a temporary repository with the objects and the object format of `repository`.

    The length of the id `commit` shows the object format (SHA-1 or SHA-256). Objects that Git writes to the temporary
    repository are deleted with it at the end.
    """
    with temporary_folder("allot-plan-") as folder:
        for part in ("objects", "refs", "info"):
            (folder / part).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        is_sha256 = len(commit) == _SHA256_LENGTH
        text = _CONFIGURATION.format(int(is_sha256)) + (_OBJECT_FORMAT if is_sha256 else "")
        (folder / "config").write_text(text, encoding="ascii")
        # A user's own configuration may define filters and merge drivers, and a .gitattributes file could select them.
        # The attributes that are written here take precedence over that file.
        (folder / "info" / "attributes").write_text("* !filter merge=text\n", encoding="ascii")
        if repository.is_shallow():
            shutil.copyfile(repository.git.common_folder / "shallow", folder / "shallow")
        with Repository(repository.folder, GitCommands(repository.folder, folder)) as sandbox:
            yield sandbox
