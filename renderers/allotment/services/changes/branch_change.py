"""Pushes a change as a new branch with one commit on top of the target branch of pull requests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.commits import CommitMessage, write_commit, write_temporary_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.edits.change_set import ChangeSet
from allotment.edits.operation_id import name_operation_branch, write_message
from allotment.problems import OperationRefused, quote_value

BRANCH_PREFIX = "allot/"
_SEPARATORS = re.compile("[^a-z0-9]+")
_DIGEST_LENGTH = 8
_MAX_SLUG = 60
_MAX_NAMES = 50  # names that are tried for a change that was merged before


class BaseCommit(NamedTuple):
    """A commit to change: the tip of the target branch. `root` is the folder of the declarations in a work tree."""

    root: Path
    repository: Repository
    commit: str

    def to_commit_paths(self, change_set: ChangeSet) -> dict[str, bytes | None]:
        """Return the files of a change by their paths in the commit."""
        prefix = self.repository.folder_prefix(self.root)
        return {f"{prefix}/{path}" if prefix else path: data for path, data in change_set.files.items()}

    def write(self, change_set: ChangeSet, operation_id: str = "") -> str:
        """Write a commit with a change on top of this commit, and return it. No ref points at it."""
        message = CommitMessage(write_message(change_set, operation_id), self.repository.committer())
        return write_commit(self.repository, [self.commit], self.to_commit_paths(change_set), message)

    def has_only_change(self, commit: str, change_set: ChangeSet) -> bool:
        """Return whether a child of an ancestor of this commit consists of a change, and of nothing else."""
        parents = self.repository.parents(commit)
        if len(parents) != 1 or not self.repository.is_ancestor(parents[0], self.commit):
            return False
        expected = write_temporary_commit(self.repository, parents[0], self.to_commit_paths(change_set))
        return self.repository.tree_of(expected, "") == self.repository.tree_of(commit, "")


class PushedBranch(NamedTuple):
    """A branch at a remote, and its commit."""

    branch: str
    commit: str


class BranchTaken(OperationRefused):
    """The remote has the branch of this operation already."""


def name_branch(change_set: ChangeSet) -> str:
    """Return a branch name for a change: its title, and a hash of its files."""
    slug = _SEPARATORS.sub("-", change_set.title.lower()).strip("-")[:_MAX_SLUG].rstrip("-")
    digest = hashlib.sha256()
    for path, data in sorted(change_set.files.items()):
        digest.update(f"{path}\0{'removed' if data is None else len(data)}\0".encode() + (data or b""))
    return f"{BRANCH_PREFIX}{slug}-{digest.hexdigest()[:_DIGEST_LENGTH]}"


def push_operation(base: BaseCommit, remote: Remote, change_set: ChangeSet, operation_id: str) -> PushedBranch:
    """Push a commit as the branch of an operation, and return the branch.

    The remote creates a ref only once, so the branch is the lock of the operation. Raises BranchTaken if the remote has
    the branch, and OperationRefused if it refuses the push.
    """
    branch = name_operation_branch(operation_id)
    name = f"refs/heads/{branch}"
    if not remote.look(name):
        commit = base.write(change_set, operation_id)
        if remote.push({name: commit}):
            return PushedBranch(branch, commit)
    raise BranchTaken(f"{quote_value(str(remote))} has the branch {branch} already: run the command again")


def push_change(
    base: BaseCommit, remote: Remote, change_set: ChangeSet, is_merged: Callable[[str], bool] = lambda branch: False
) -> PushedBranch:
    """Push a commit as a new branch, and return the branch.

    If the remote has the branch with exactly this change already, return that branch. A branch of an earlier change with the
    same files, which was merged and then undone, gets no second pull request: the name then ends with a number.
    `is_merged` returns whether the forge merged a branch.

    Raises OperationRefused if the branch has another content or other commits, or if the remote refuses the push.
    """
    first = name_branch(change_set)
    for number in range(1, _MAX_NAMES + 1):
        branch = first if number == 1 else f"{first}-{number}"
        name = f"refs/heads/{branch}"
        existing = remote.fetch(name).get(name)
        if is_merged(branch) or (existing and base.repository.is_ancestor(existing, base.commit)):
            continue
        if existing is None:
            commit = base.write(change_set)
            if remote.push({name: commit}):
                return PushedBranch(branch, commit)
            existing = remote.fetch(name).get(name)  # another process pushed the branch at the same time
        if existing and base.has_only_change(existing, change_set):
            return PushedBranch(branch, existing)
        raise OperationRefused(
            f"{quote_value(str(remote))} has a branch {branch} with other content than this change: delete the branch, or add"
            " --operation-id with a new ID to push another branch"
        )
    raise OperationRefused(
        f"{quote_value(str(remote))} has {_MAX_NAMES} merged branches named {first}: delete them first"
    )
