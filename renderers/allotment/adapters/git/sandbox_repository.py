"""A repository for a moment: it reads the objects of another one, and has no configuration, attributes, hooks or index of it.

What Git is asked here runs no program that the other repository names (filters, merge drivers, fsmonitor, hooks), and
writes nothing there.
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
    """Return the repository around a folder to look at what it has: it asks no other one for what it lacks."""
    return Repository(root, GitCommands(root, offline=True))


@contextmanager
def sandbox_repository(here: Repository, commit: str) -> Iterator[Repository]:
    """Return a repository that has the objects of `here`, whose ids are as long as that of `commit`. What Git writes
    there is gone afterwards."""
    with temporary_folder("allot-plan-") as folder:
        for part in ("objects", "refs", "info"):
            (folder / part).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n", encoding="ascii")
        is_sha256 = len(commit) == _SHA256_LENGTH
        text = _CONFIGURATION.format(int(is_sha256)) + (_OBJECT_FORMAT if is_sha256 else "")
        (folder / "config").write_text(text, encoding="ascii")
        # A user's own configuration may have filters and merge drivers, which a file of the repository would choose.
        (folder / "info" / "attributes").write_text("* !filter merge=text\n", encoding="ascii")
        if here.is_shallow():
            shutil.copyfile(here.git.common_folder / "shallow", folder / "shallow")
        yield Repository(here.folder, GitCommands(here.folder, folder))
