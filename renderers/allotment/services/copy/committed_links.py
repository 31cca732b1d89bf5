"""Refuses links in a work tree, because a stranger may have committed them."""

from __future__ import annotations

import os
from pathlib import Path

from allotment.problems import OperationRefused, escape_unprintable


def refuse_committed_links(path: Path) -> None:
    """Raise OperationRefused if a path leads through a link within the nearest work tree around it.

    Such a link could lead a copy to the files of the person, such as those in the home folder.
    """
    absolute = Path(os.path.abspath(path))
    ancestors = [absolute, *absolute.parents]
    tree = next((at for at, folder in enumerate(ancestors) if at and os.path.lexists(folder / ".git")), 0)
    if links := [folder for folder in ancestors[:tree] if folder.is_symlink()]:
        raise OperationRefused(
            f"{escape_unprintable(str(links[-1]))} is a link in a work tree, and a stranger may have committed it: name its target"
        )
