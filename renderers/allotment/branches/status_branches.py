"""Reads a cluster's status branch at its remote, and decides which of its commits is trusted.

`refs/allotment/status/<cluster>` points at the reporter's last commit on `refs/heads/status/<cluster>`. The reporter
moves both refs in one push, and only forwards. If the branch is at another commit, this commit is foreign: it is
neither overwritten nor trusted. If the cluster declares the reporter's key, only commits with a signature of this key
and with the name of the cluster are trusted, because several clusters can have the same key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from allotment.adapters.git.remote import Remote, tracking_ref
from allotment.adapters.git.repository import MAX_READ_BYTES, UNKNOWN_KEY, Repository
from allotment.adapters.git.ssh_signatures import SignaturesUnavailable
from allotment.branches.branch import Branch
from allotment.declared.values import NAME_PATTERN
from allotment.manifests.names import status_branch
from allotment.problems import OperationRefused, quote_value

SUMMARY, CLUSTER, CAPACITY = "summary.md", "stocks.yaml", "capacity.yaml"
_TENANTS_FOLDER, _USAGE_FOLDER = "tenants/", "usage/"
_CAPACITY_USAGE = "capacity.jsonl"
_CLUSTER_FIELD = re.compile(rb'^  cluster: "?([a-z0-9-]+)"?$', re.MULTILINE)
_NAME = re.compile(NAME_PATTERN.strip("^$"))


def reported_ref(cluster: str) -> str:
    """Return the ref of the last commit of the cluster's reporter."""
    return f"refs/allotment/status/{cluster}"


def tenant_path(tenant: str) -> str:
    """Return the path of a tenant's status."""
    return f"{_TENANTS_FOLDER}{tenant}.yaml"


def tenant_of(path: str) -> str | None:
    """Return the tenant's name from the path of a tenant's status file; None for any other path."""
    return _name_between(_TENANTS_FOLDER, path, ".yaml")


def usage_path(owner: str) -> str:
    """Return the path of the usage log of a tenant, or of the capacity if `owner` is empty."""
    return f"{_USAGE_FOLDER}{owner}.jsonl" if owner else _CAPACITY_USAGE


def usage_owner(path: str) -> str | None:
    """Return the tenant of a usage log, or an empty text for the log of the capacity; None for any other path."""
    if path == _CAPACITY_USAGE:
        return ""
    return _name_between(_USAGE_FOLDER, path, ".jsonl")


def _name_between(folder: str, path: str, ending: str) -> str | None:
    """Return the name of a file in a folder without its ending; None if the file has another place or ending.

    Any writer of an unsigned branch can choose a name. A name that no tenant can have counts as no name.
    """
    name = path.removeprefix(folder).removesuffix(ending)
    return name if _NAME.fullmatch(name) and path == f"{folder}{name}{ending}" else None


class StatusBranch(NamedTuple):
    """A cluster's status branch at a remote.

    `trusted_commit` is the commit from which the status is read; None if no commit is trusted. `distrust_reason`
    describes the fault of the branch; empty if the branch is as the reporter left it.
    """

    branch: Branch
    trusted_commit: str | None
    distrust_reason: str


def read_status_branch(repository: Repository, remote: Remote, cluster: str, key: str | None = None) -> StatusBranch:
    """Return a cluster's status branch at a remote (`read_status_branches`)."""
    return read_status_branches(repository, remote, {cluster: key})[cluster]


def read_status_branches(
    repository: Repository, remote: Remote, clusters: Mapping[str, str | None]
) -> dict[str, StatusBranch]:
    """Return the status branches of several clusters with one request to the remote.

    `clusters` maps each cluster to its reporter's declared public SSH key, or None. Raises OperationRefused if the
    remote doesn't answer.
    """
    refs = remote.fetch(*(ref(name) for name in clusters for ref in (status_branch, reported_ref)), ours=True)
    return {name: _check_status_branch(repository, name, key, refs) for name, key in clusters.items()}


def read_fetched_status_branches(
    repository: Repository, clusters: Mapping[str, str | None], *, is_at_origin: bool
) -> dict[str, list[StatusBranch]]:
    """Return the trusted states of several clusters' status branches that earlier fetches left in the clone.

    A cluster has up to three states, because `git fetch` and the commands that show a status update different refs.
    `clusters` is the same as for `read_status_branches`. `is_at_origin` says whether the status branches are at origin.
    This function fetches nothing.
    """
    names = {cluster: _list_fetched_refs(cluster, is_at_origin=is_at_origin) for cluster in clusters}
    refs = repository.find_refs(*(name for cluster_names in names.values() for name in cluster_names))
    states = {
        cluster: [
            _check_commit(repository, cluster, key, commit)
            for commit in dict.fromkeys(refs[name] for name in names[cluster] if name in refs)
        ]
        for cluster, key in clusters.items()
    }
    return {
        cluster: [each for each in all_states if not each.distrust_reason] for cluster, all_states in states.items()
    }


def list_fetched_commits(repository: Repository, cluster: str, key: str | None, *, is_at_origin: bool) -> list[str]:
    """Return the commits of a cluster's status branch that earlier fetches left in the clone.

    If the cluster declares a key, only commits with its signature and the name of the cluster count. `is_at_origin` says whether the status branches are at
    origin, so that `git fetch` brings them; else a branch of origin with such a name belongs to somebody else.
    """
    states = read_fetched_status_branches(repository, {cluster: key}, is_at_origin=is_at_origin)[cluster]
    return [state.trusted_commit for state in states if state.trusted_commit is not None]


def _list_fetched_refs(cluster: str, *, is_at_origin: bool) -> tuple[str, ...]:
    branch = status_branch(cluster)
    fetched = branch.replace("refs/heads/", "refs/remotes/origin/", 1)
    return tracking_ref(branch), tracking_ref(reported_ref(cluster)), *((fetched,) if is_at_origin else ())


def read_status_branches_at(
    repository: Repository, commits: Mapping[str, str], keys: Mapping[str, str | None]
) -> dict[str, StatusBranch]:
    """Return the states of clusters' status branches at commits in the clone, by cluster. This function fetches nothing."""
    return {
        cluster: _check_commit(repository, cluster, keys.get(cluster), commit) for cluster, commit in commits.items()
    }


def _check_commit(repository: Repository, cluster: str, key: str | None, commit: str) -> StatusBranch:
    """Return the state of a status branch with this commit as its tip."""
    return _check_status_branch(
        repository, cluster, key, {status_branch(cluster): commit, reported_ref(cluster): commit}
    )


def list_reported_clusters(remote: Remote) -> list[str]:
    """Return the names of the clusters that have a status branch, sorted. Raises OperationRefused if the remote doesn't answer."""
    prefix = status_branch("")
    return sorted(name.removeprefix(prefix) for name in remote.list_below(prefix))


def _check_status_branch(
    repository: Repository, cluster: str, key: str | None, refs: Mapping[str, str]
) -> StatusBranch:
    tip, own = refs.get(status_branch(cluster)), refs.get(reported_ref(cluster))
    branch = Branch(repository, cluster, tip, own, None)
    try:
        _check_readable(repository, branch)
        signed = own is None or key is None or repository.is_signed_by(own, key)
    except SignaturesUnavailable:
        raise
    except OperationRefused as error:
        unread = Branch(repository, cluster, tip, None, None, forged=own)
        return StatusBranch(unread, None, f"commit {own} can't be read: {error}")
    if not signed and key == UNKNOWN_KEY:
        reason = (
            f"spec.reporter.publicKey can't be read, so no commit is trusted: correct clusters/{cluster}/cluster.yaml"
        )
        return StatusBranch(branch, None, reason)
    if not signed:
        return StatusBranch(branch, None, f"commit {own} is not signed with the cluster's key")
    if key is not None and own is not None and (other := _read_cluster_name(branch)) != cluster:
        return StatusBranch(branch, None, f"commit {own} is the status of {quote_value(other or 'no cluster')}")
    if tip is None:
        return StatusBranch(branch, own, "" if own is None else "its branch is gone")
    if own is None:
        message = f"{reported_ref(cluster)} is missing, so no commit of the branch is trusted: push the ref again from a backup"
        return StatusBranch(branch, None, message)
    return StatusBranch(branch, own, "" if tip == own else f"commit {tip} is not the reporter's")


def _read_cluster_name(branch: Branch) -> str | None:
    """Return the name of the cluster in its status, also in one of another version; None if there is none."""
    match = _CLUSTER_FIELD.search(branch.read(CLUSTER)) if CLUSTER in branch.files else None
    return match[1].decode() if match else None


def _check_readable(repository: Repository, branch: Branch) -> None:
    """Raise OperationRefused if a file of the branch cannot be read. After this check, all files can be read."""
    for blob, (kind, size) in repository.objects.info(branch.files.values()).items():
        if kind != "blob" or size > MAX_READ_BYTES:
            raise OperationRefused(f"object {blob} is no file of ours")
