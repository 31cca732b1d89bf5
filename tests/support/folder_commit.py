"""A commit of a whole folder."""

from __future__ import annotations

from pathlib import Path

from tests.support.published import git


def commit(root: Path) -> str:
    """Commit all files of a folder, which becomes a repository if it is none, and return the commit."""
    git(root, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Test"), ("user.email", "test@example.invalid")):
        git(root, "config", name, value)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "state")
    return git(root, "rev-parse", "HEAD")
