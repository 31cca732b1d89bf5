"""Moves the checked-out branch to a new commit. The work tree has the files of this commit already."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.adapters.git.commands import QUIET_SETTINGS, READ_SETTINGS
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused

_MAX_OUTPUT = 400  # characters of Git's output


def require_branch(repository: Repository) -> None:
    """Raise OperationRefused if no branch is checked out, or if the branch has no commit yet."""
    if repository.git.work_tree is None:
        raise OperationRefused(
            "this repository has no work tree to commit from, because core.bare is true in its configuration"
        )
    if not repository.has_commits():
        raise OperationRefused("the branch has no commit yet: commit the repository with git first")
    if repository.git.run("symbolic-ref", "--quiet", "HEAD", settings=READ_SETTINGS).exit_code:
        raise OperationRefused("no branch is checked out: run `git switch BRANCH` first")


def advance_branch(repository: Repository, head: str, commit: str, paths: Sequence[str]) -> None:
    """Move the checked-out branch from `head` to `commit`, and update the index entries of `paths`.

    The entries of all other files stay. Raises OperationRefused, and moves nothing, if no branch is checked out, if
    another process is writing the index, or if the branch no longer points at `head`.
    """
    require_branch(repository)
    lock = repository.git.work_tree_data / "index.lock"
    if lock.exists():
        raise OperationRefused(
            f"another Git process writes the index: try again, or remove {lock} if no Git process runs"
        )
    moved = repository.git.run(
        "update-ref", "--create-reflog", "-m", "allot", "HEAD", commit, head, settings=QUIET_SETTINGS
    )
    if moved.exit_code:
        raise OperationRefused(f"the branch has moved: run the command again ({moved.stderr.strip()[-_MAX_OUTPUT:]})")
    updated = repository.git.run("reset", "--quiet", "--", *paths, settings=READ_SETTINGS)
    if updated.exit_code:
        raise OperationRefused(
            f"the commit is on the branch, but the index is stale: run `git reset` ({updated.stderr.strip()[-_MAX_OUTPUT:]})"
        )
