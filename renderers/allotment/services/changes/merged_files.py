"""Reads files as they are merged: at HEAD, and at the target branch as it was last fetched."""

from __future__ import annotations

from pathlib import Path

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.branches.merged_branch import find_fetched_branch
from allotment.problems import OperationRefused


def read_merged_versions(root: Path, path: str) -> list[bytes | None]:
    """Return the content of a file at HEAD, and at `origin/BRANCH` if that branch was fetched. None: no such file."""
    repository = Repository(root)
    if not repository.has_commits():
        return []
    versions = [_read(CommitSource(root, "HEAD", repository), path)]
    try:
        fetched = CommitSource(root, f"refs/remotes/origin/{find_fetched_branch(root, repository)}", repository)
    except OperationRefused:  # the branch was not fetched
        return versions
    return [*versions, _read(fetched, path)]


def _read(source: CommitSource, path: str) -> bytes | None:
    try:
        return source.read(path)
    except KeyError:
        return None
