"""Pushes a change as a new branch with one commit on top of the target branch of pull requests."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.commits import CommitMessage, write_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.edits.change_set import ChangeSet
from allotment.problems import OperationRefused, quote_value

BRANCH_PREFIX = "allot/"
_DIGEST_LENGTH = 8
_MAX_SLUG = 60


class PushedBranch(NamedTuple):
    """A branch at a remote, and its commit."""

    branch: str
    commit: str


def name_branch(change_set: ChangeSet) -> str:
    """Return a branch name for a change: its title, and a hash of its files."""
    slug = re.sub(r"[^a-z0-9]+", "-", change_set.title.lower()).strip("-")[:_MAX_SLUG].rstrip("-")
    digest = hashlib.sha256()
    for path, data in sorted(change_set.files.items()):
        digest.update(f"{path}\0{'removed' if data is None else len(data)}\0".encode() + (data or b""))
    return f"{BRANCH_PREFIX}{slug}-{digest.hexdigest()[:_DIGEST_LENGTH]}"


def push_change(root: Path, repository: Repository, remote: Remote, tip: str, change_set: ChangeSet) -> PushedBranch:
    """Push a commit on top of `tip`, the tip of the target branch, as a new branch, and return the branch.

    If the remote has the branch with the same files already, return that branch. Raises OperationRefused if the branch
    has other files, or if the remote refuses the push.
    """
    prefix = repository.folder_prefix(root)
    changes = {f"{prefix}/{path}" if prefix else path: data for path, data in change_set.files.items()}
    branch = name_branch(change_set)
    name = f"refs/heads/{branch}"
    existing = remote.fetch(name).get(name)
    if existing is not None:
        if all(repository.read_at(existing, path) == data for path, data in changes.items()):
            return PushedBranch(branch, existing)
        raise OperationRefused(f"{quote_value(str(remote))} has a branch {branch} with other files: delete it first")
    message = CommitMessage(f"{change_set.title}\n", repository.committer())
    commit = write_commit(repository, [tip], changes, message)
    if not remote.push({name: commit}):
        raise OperationRefused(f"another push created {branch} at the same time: run the command again")
    return PushedBranch(branch, commit)
