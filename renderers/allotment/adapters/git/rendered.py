"""The rendered branches at their remote: what each holds, which commit of it is ours, and how they all move together.

Beside each branch `refs/heads/rendered/<cluster>` lie refs of ours: `refs/allotment/published/<cluster>` is the last
commit that we wrote there, `refs/allotment/source` the source commit it was rendered from, `refs/allotment/approved/
<cluster>` the last that an approval let past the brake. They move with the branches or not at all, so that order is
decided by ancestry, and a commit of anybody else's shows. Who may push all of them could write a commit that looks
like ours, unless the platform declares the publisher's key: then what counts is the newest commit that it has signed
for that cluster.
"""

from __future__ import annotations

import contextlib
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
from allotment.problems import Refused

SOURCE = "refs/allotment/source"
MOST_FORGED = 1_000  # commits on top of our last one: verifying each may take 10 ms
_TRAILER = re.compile(r"^Source-Commit: ([0-9a-f]{40})$", re.MULTILINE)  # shown in a status; nothing is decided by it


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


class Unproven(Refused):
    """What is published lacks the signature of the key that the platform declares."""


def publishes(cluster: str) -> str:
    """Return how the message of each commit to a cluster's branch begins: what is signed for one counts for no other."""
    return f"Publish {cluster}: "


class Look(NamedTuple):
    """One look at the remote: the branches by cluster, and the source commit that was published last."""

    source: str | None
    branches: dict[str, Branch]


def look(
    repository: Repository, remote: Remote, clusters: Iterable[str], key: str | None = None, *, adopt: bool = False
) -> Look:
    """Return what a remote holds for some clusters. `key` is the publisher's public SSH key, where one is declared;
    `adopt` believes what it hasn't signed. Raises Refused when the remote doesn't answer, and Unproven."""
    names = sorted(clusters)
    several = (ref(name) for name in names for ref in (rendered_branch, published_ref, approved_ref))
    refs = remote.fetch(SOURCE, *several, ours=True)
    branches = {}
    for name in names:
        own = refs.get(published_ref(name))
        proven = own if own is None or key is None else _proven(repository, own, name, key)
        if proven is None and own is not None and not adopt:
            raise Unproven(
                f"{published_ref(name)} is at {own[:12]}, and none of the newest {MOST_FORGED:,} commits there has the signature of the"
                " key that spec.publisher.publicKey of the platform declares, so nothing was published. Where the key is new: `allot publish"
                " --adopt --signing-key FILE`, once. Else somebody else pushed it: docs/repository.md of Allotment tells the way out"
            )
        last = proven or own
        tips = refs.get(rendered_branch(name)), last, refs.get(approved_ref(name))
        forged = own if own != last else None
        branches[name] = Branch(repository, name, *tips, today, forged=forged, adopted=proven is None)
    return Look(refs.get(SOURCE), branches)


def _proven(repository: Repository, commit: str, cluster: str, key: str) -> str | None:
    """Return the newest commit, from one backwards, that the publisher signed for a cluster; None where there is none."""
    for one in repository.back_from(commit, MOST_FORGED):
        with contextlib.suppress(TooMuch):  # ours are small
            if repository.subject(one).startswith(publishes(cluster)) and repository.is_signed_by(one, key):
                return one
    return None
