"""Reads the rendered branches of a remote and decides which of their commits Allotment wrote.

Beside the branches `refs/heads/rendered/<cluster>`, the remote has these refs:

    refs/allotment/published/<cluster>  the last commit that Allotment published on the branch
    refs/allotment/approved/<cluster>   the last published commit with a deletion that an approval let past the brake
    refs/allotment/source               the source commit of the last publish
    refs/allotment/retained             the record of the retained tenants (`retention_ref.py`)

A publish pushes the branches and these refs in one atomic push. If the tip of a branch is neither the target of its
published ref nor an ancestor of the target, the tip is therefore a foreign commit: somebody else pushed it.

The refs don't prove the authorship of a commit: anyone with the right to push to the branches and to all of these refs
can forge a publish. If the platform declares the publisher's public key, signatures decide instead of refs. The last
published commit of a cluster is then the newest commit that has the signature of the key and the name of the cluster in
its subject. The message of this commit names the published source commit.

If the refs of a cluster are missing or damaged, Allotment does not treat the cluster as a new cluster. It stops
publishing until a person accepts the branch as Allotment's own (`allot publish --adopt`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import UNKNOWN_KEY, Repository
from allotment.adapters.git.ssh_signatures import SignaturesUnavailable
from allotment.adapters.git.trees import MalformedTree
from allotment.branches.branch import Branch
from allotment.branches.retention_ref import RETAINED, fetch_record
from allotment.manifests.names import rendered_branch
from allotment.manifests.paths import current_path
from allotment.problems import OperationRefused

SOURCE_REF = "refs/allotment/source"
BRAKE_APPROVED_LINE = "Brake: approved"  # a line in the message of each commit that an approval let past the brake
# A search for a published commit reads at most this many commits of a branch. The check of a signature takes 15 ms.
MOST_FORGED = 1_000
_ADOPT_REMEDY = (
    "To adopt the current branches, run `allot publish --adopt` once; see docs/operate/repository.md of Allotment"
)
_KEY_REMEDY = (
    "If the key is new, run `allot publish --adopt --signing-key FILE` once. Otherwise, a foreign commit "
    "was pushed: see docs/operate/repository.md of Allotment"
)
# The line of a commit message that names the source commit. A status shows the source commit. Decisions depend on the
# line only if the publisher's key signed the commit message.
_SOURCE_TRAILER = re.compile(r"^Source-Commit: ([0-9a-f]{40}|[0-9a-f]{64})$", re.MULTILINE)


def published_ref(cluster: str) -> str:
    """Return the ref that points at a cluster's last published commit."""
    return f"refs/allotment/published/{cluster}"


def approved_ref(cluster: str) -> str:
    """Return the ref that points at the last commit that an approval let past the brake."""
    return f"refs/allotment/approved/{cluster}"


def live_source(repository: Repository, revision: str, folder: str, known_tree: str) -> tuple[str, str] | None:
    """Return the source commit of a folder in a rendered commit, and the folder's tree.

    The source commit is empty if the last commit that changed the folder names no source commit.

    `revision` is a rendered commit that Argo CD reports. Argo CD reports the newest commit for every Application, even
    if the folder of the Application didn't change. Therefore, return None if the folder's tree is `known_tree`. Return
    None also if the commit has no such folder, or if the tree cannot be read, as in a foreign commit.
    """
    try:
        tree = repository.tree_of(revision, folder)
    except (MalformedTree, LimitExceeded):
        return None
    if tree is None or tree == known_tree:
        return None
    trailers = _SOURCE_TRAILER.findall(repository.last_message(revision, folder))
    return trailers[-1] if trailers else "", tree


class PublicationUnproven(OperationRefused):
    """The published state is unknown: Allotment's refs are missing or damaged, or the declared key signed no commit."""


def publish_subject_prefix(cluster: str) -> str:
    """Return the prefix of a cluster's commit messages. The prefix limits a signature to this cluster."""
    return f"Publish {cluster}: "


class RenderedBranches(NamedTuple):
    """The rendered branches of a remote and the refs beside them, in their state at the time of the fetch.

    - `source` is the last published source commit according to SOURCE_REF. `branches` has the branches by cluster.
    - `refs` has the targets of all refs.
    - `forged_refs` has the refs that a publish overwrites because they can't move forwards, with their targets. Such a
      published ref points at a foreign object that is no commit. Such an approved ref points at an object without a
      proven approval.
    - `proven_sources` has the source commits that the last signed commits of the clusters name. A source commit that is
      an ancestor of another is left out. `proven_sources` is empty if the platform declares no key, or if the caller
      adopts the branches.
    """

    source: str | None
    branches: dict[str, Branch]
    refs: dict[str, str]
    forged_refs: dict[str, str]
    proven_sources: tuple[str, ...] = ()


def list_tips(remote: Remote, clusters: Iterable[str]) -> tuple[tuple[str, str | None, str | None], ...]:
    """Return the name of each cluster with the targets of its branch and of its published ref."""
    names = sorted(clusters)
    refs = remote.fetch(*(ref(name) for name in names for ref in (rendered_branch, published_ref)), ours=True)
    return tuple((name, refs.get(rendered_branch(name)), refs.get(published_ref(name))) for name in names)


def read_rendered_branches(
    repository: Repository, remote: Remote, clusters: Iterable[str], key: str | None = None, *, adopt: bool = False
) -> RenderedBranches:
    """Return the rendered branches of some clusters at a remote.

    `key` is the publisher's declared public SSH key. With `adopt`, commits are accepted even if they aren't signed or
    if no published ref points at them. Raises OperationRefused if the remote doesn't answer, and PublicationUnproven if
    the published state is unknown.
    """
    names = sorted(clusters)
    cluster_refs = (ref(name) for name in names for ref in (rendered_branch, published_ref, approved_ref))
    refs = remote.fetch(SOURCE_REF, *cluster_refs, ours=True, unfetched=(RETAINED,))
    fetch_record(remote, refs)
    branches, over = dict[str, Branch](), dict[str, str]()
    for name in names:
        branch = _read_branch(repository, name, refs, key, adopt=adopt)
        if branch.invalid_published_ref is not None:
            over[published_ref(name)] = branch.invalid_published_ref
        if branch.approved_commit is None and approved_ref(name) in refs:
            over[approved_ref(name)] = refs[approved_ref(name)]
        branches[name] = branch
    own_commits = (
        []
        if key is None or adopt
        else [
            cluster_branch.published_commit for cluster_branch in branches.values() if cluster_branch.published_commit
        ]
    )
    trailers = [
        _SOURCE_TRAILER.findall(repository.trees.message(commit).decode("utf-8", "replace"))[-1:]
        for commit in own_commits
    ]
    proven = repository.newest_commits([source for sources in trailers for source in sources])
    return RenderedBranches(refs.get(SOURCE_REF), branches, refs, over, proven)


def _read_branch(
    repository: Repository, cluster: str, refs: Mapping[str, str], key: str | None, *, adopt: bool
) -> Branch:
    tip, own, approved = (refs.get(ref(cluster)) for ref in (rendered_branch, published_ref, approved_ref))

    proven = _newest_signed_publish(repository, (own, tip), cluster, key) if key is not None else None

    def goes_on(last: str | None, *, adopted: bool = False) -> Branch:
        forged = own if own != last and not _is_behind(repository, own, proven, cluster, key) else None
        return Branch(
            repository,
            cluster,
            tip,
            last,
            approved,
            current_path,
            forged=forged,
            adopted=adopted,
            signed=key is not None,
        )

    if proven is not None and key is not None:
        if not adopt and not _is_approved(repository, approved, proven, cluster, key):
            approved = None
        return goes_on(proven, adopted=adopt)
    branch = goes_on(own)
    if key is not None and not adopt:
        if (own or tip) and key == UNKNOWN_KEY:
            fault = "spec.publisher.publicKey of the platform can't be read, so no commit is trusted"
            raise _unproven_error(cluster, own, fault, "Correct platform/platform.yaml")
        if own or tip:
            fault = (
                f"none of the newest {MOST_FORGED:,} commits there, or of the branch beside it, has the signature of the key that"
                " spec.publisher.publicKey of the platform declares"
            )
            raise _unproven_error(cluster, own, fault, _KEY_REMEDY)
        return branch
    fault = _listing_fault(branch)
    like = _newest_similar_commit(repository, tip, cluster) if own is None or fault else None
    if adopt:
        return goes_on(like if own is None or fault else own, adopted=key is not None)
    if like is not None and not fault:
        fault = (
            f"{rendered_branch(cluster)} descends from commits of Allotment, and the last published commit is unknown"
        )
    if fault:
        raise _unproven_error(cluster, own, fault, _ADOPT_REMEDY)
    return branch


def check_published(remote_state: RenderedBranches, clusters: Iterable[str]) -> None:
    """Raise PublicationUnproven if one of `clusters`, which were published before, has no published commit."""
    for name in sorted(remote_state.branches.keys() & set(clusters)):
        if remote_state.branches[name].published_commit is None:
            state = "has no commit of Allotment" if remote_state.branches[name].tip else "is gone too"
            fault = f"{rendered_branch(name)} {state}: the published manifests of this cluster are unknown"
            raise _unproven_error(name, None, fault, _ADOPT_REMEDY)


def _unproven_error(cluster: str, own: str | None, fault: str, way_out: str) -> PublicationUnproven:
    name = published_ref(cluster)
    where = f"{name} is at {own[:12]}" if own else f"{name} is gone"
    return PublicationUnproven(f"{where}, and {fault}, so nothing was published. {way_out}")


def _listing_fault(branch: Branch) -> str:
    """Return the reason why the files of the published commit cannot be read; empty if they can be read."""
    try:
        branch.files  # noqa: B018  # reads and caches the listing
    except OperationRefused as error:
        return f"that can't be read: {error}"
    return ""


def _newest_similar_commit(repository: Repository, tip: str | None, cluster: str) -> str | None:
    """Return a branch's newest readable commit with the subject of a publish. Anyone could have written this commit."""
    for commit in repository.list_ancestors(tip, MOST_FORGED) if tip else ():
        with contextlib.suppress(OperationRefused):
            if (
                repository.subject(commit).startswith(publish_subject_prefix(cluster))
                and repository.listing(commit) is not None
            ):
                return commit
    return None


def last_publish(
    repository: Repository, starts: Iterable[str | None], cluster: str, key: str | None = None
) -> str | None:
    """Return the newest publish of a cluster among some commits and their ancestors; None if there is none.

    A publish is a commit with the subject of a publish. With a key, the key must also have signed the commit.
    """
    if key is not None:
        return _newest_signed_publish(repository, starts, cluster, key)
    newest = None
    for start in dict.fromkeys(starts):
        like = _newest_similar_commit(repository, start, cluster)
        if like is not None and (newest is None or repository.is_ancestor(newest, like)):
            newest = like
    return newest


class ReleasedDeletion(NamedTuple):
    """The result of a search for the newest commit that an approval let past the brake.

    `commit` is None if the search found no such commit. If the search reached its limit of commits without a result,
    `is_complete` is False.
    """

    commit: str | None
    is_complete: bool


def last_released_deletion(
    repository: Repository, commit: str, cluster: str, key: str | None = None
) -> ReleasedDeletion:
    """Search `commit` and its ancestors for the newest publish that an approval let past the brake."""
    searched = repository.list_ancestors(commit, MOST_FORGED)
    for older in searched:
        try:
            if (
                BRAKE_APPROVED_LINE in _message_lines(repository, older)
                and last_publish(repository, [older], cluster, key) == older
            ):
                return ReleasedDeletion(older, is_complete=True)
        except SignaturesUnavailable:
            raise
        except OperationRefused:
            continue
    return ReleasedDeletion(None, len(searched) < MOST_FORGED)


def _newest_signed_publish(repository: Repository, starts: Iterable[str | None], cluster: str, key: str) -> str | None:
    """Return, from some commits and their ancestors, the newest commit that the publisher signed for a cluster."""
    newest = None
    for start in dict.fromkeys(starts):
        signed_commit = _newest_signed_commit(repository, start, cluster, key)
        if signed_commit is not None and (newest is None or repository.is_ancestor(newest, signed_commit)):
            newest = signed_commit
    return newest


def _is_behind(repository: Repository, own: str | None, last: str | None, cluster: str, key: str | None) -> bool:
    """Return whether `own`, the target of the published ref, is signed and older than the published commit `last`.

    This is the case after a push that moved the branch but not the published ref.
    """
    if own is None or last is None or key is None or repository.peel_to_commit(own) != own:
        return False
    return repository.is_ancestor(own, last) and _newest_signed_commit(repository, own, cluster, key, most=1) == own


def _is_approved(repository: Repository, commit: str | None, last: str, cluster: str, key: str) -> bool:
    """Return whether `commit` is signed for the cluster and its message says that an approval let it past the brake.

    `commit` must also be the published commit `last` or an ancestor of `last`.
    """
    if commit is None or repository.peel_to_commit(commit) != commit or not repository.is_ancestor(commit, last):
        return False
    return _newest_signed_commit(
        repository, commit, cluster, key, most=1
    ) == commit and BRAKE_APPROVED_LINE in _message_lines(repository, commit)


def _message_lines(repository: Repository, commit: str) -> list[str]:
    return repository.trees.message(commit).decode("utf-8", "replace").split("\n")


def _newest_signed_commit(
    repository: Repository, start: str | None, cluster: str, key: str, most: int | None = None
) -> str | None:
    commit = repository.peel_to_commit(start) if start else None
    for ancestor in repository.list_ancestors(commit, most or MOST_FORGED) if commit else ():
        try:
            if repository.subject(ancestor).startswith(publish_subject_prefix(cluster)) and repository.is_signed_by(
                ancestor, key
            ):
                return ancestor
        except SignaturesUnavailable:
            raise
        except OperationRefused:  # skip an unreadable commit, which Allotment did not write
            continue
    return None
