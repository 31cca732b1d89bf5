"""The rendered branches at their remote: what each holds, which commit of it is ours, and how they all move together.

Beside each branch `refs/heads/rendered/<cluster>` lie refs of ours: `refs/allotment/published/<cluster>` is the last
commit that we wrote there, `refs/allotment/source` the source commit it was rendered from, `refs/allotment/approved/
<cluster>` the last that an approval let past the brake. They move with the branches or not at all, so that order is
decided by ancestry, and a commit of anybody else's shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.objects import TooMuch
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import MalformedTree
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import today

SOURCE = "refs/allotment/source"
_TRAILER = re.compile(r"^Source-Commit: ([0-9a-f]{40})$", re.MULTILINE)  # for people to read, never believed


def published_ref(cluster: str) -> str:
    """Return the ref at the last commit of ours."""
    return f"refs/allotment/published/{cluster}"


def approved_ref(cluster: str) -> str:
    """Return the ref at the last commit that was let past the brake."""
    return f"refs/allotment/approved/{cluster}"


def live_source(repository: Repository, revision: str, folder: str, known: str) -> tuple[str, str] | None:
    """Return the source commit of what a folder holds in a rendered commit, and the folder's tree.

    None where the tree is `known`: Argo CD names the newest commit for every Application, also for those that it didn't
    touch, so it is the content that counts. None too where it can't be read: it is somebody else's.
    """
    try:
        tree = repository.tree_of(revision, folder)
    except (MalformedTree, TooMuch):
        return None
    if tree is None or tree == known:
        return None
    found = _TRAILER.findall(repository.last_message(revision, folder))
    return found[-1] if found else "", tree


class Look(NamedTuple):
    """One look at the remote: the branches by cluster, and the source commit that was published last."""

    source: str | None
    branches: dict[str, Branch]


def look(repository: Repository, remote: Remote, clusters: Iterable[str]) -> Look:
    """Return what a remote holds for some clusters. Raises Refused when it doesn't answer."""
    names = sorted(clusters)
    several = (ref(name) for name in names for ref in (rendered_branch, published_ref, approved_ref))
    refs = remote.fetch(SOURCE, *several, ours=True)
    branches = {
        name: Branch(
            repository,
            name,
            refs.get(rendered_branch(name)),
            refs.get(published_ref(name)),
            refs.get(approved_ref(name)),
            today,
        )
        for name in names
    }
    return Look(refs.get(SOURCE), branches)
