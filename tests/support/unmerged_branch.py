"""A branch of a stranger, checked out, that declares itself as the branch of declarations."""

from __future__ import annotations

from tests.conftest import edit
from tests.support.published import Place, git

PLATFORM = "platform/platform.yaml"
AUTHOR = ("-c", "user.name=Eve", "-c", "user.email=eve@elsewhere.example")


def check_out_branch(place: Place, *edits: tuple[str, str, str], pushed: bool = True) -> str:
    """Check out an unmerged branch that declares itself as the branch of declarations, and return its commit."""
    git(place.root, "checkout", "-q", "-b", "mine")
    for path, old, new in ((PLATFORM, "branch: main", "branch: mine"), *edits):
        edit(place.root, path, old, new)
    git(place.root, *AUTHOR, "commit", "-q", "-a", "-m", "Mine")
    if pushed:
        git(place.root, "push", "-q", "origin", "mine")
    return git(place.root, "rev-parse", "HEAD")
