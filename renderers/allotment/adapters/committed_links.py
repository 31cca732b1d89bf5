"""Refuses links in a work tree, because a stranger may have committed them."""

from __future__ import annotations

import os
from pathlib import Path

from allotment.problems import OperationRefused, escape_unprintable


def refuse_committed_links(path: Path) -> None:
    """Raise OperationRefused if a path leads through a link that lies in a work tree.

    Such a link could lead a command to the files of the person, such as those in the home folder. The path counts as it is
    written, because the system follows a link before a `..` after it.
    """
    written = Path(os.getcwd(), path)
    for folder in reversed([written, *written.parents]):
        if folder.is_symlink() and is_in_work_tree(Path(os.path.realpath(folder.parent))):
            raise OperationRefused(
                f"{escape_unprintable(str(folder))} is a link in a work tree, and a stranger may have committed it: name its target"
            )


def is_in_work_tree(folder: Path) -> bool:
    """Return whether a folder without links in its path, or a folder above it, is a work tree of Git."""
    return any(os.path.lexists(each / ".git") for each in (folder, *folder.parents))
