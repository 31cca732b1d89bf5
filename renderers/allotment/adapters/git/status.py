"""The status branch of a cluster at its remote: what its reporter wrote there, and whether that may be believed.

Beside `refs/heads/status/<cluster>` lies `refs/allotment/status/<cluster>`, the reporter's last commit. Both move
together, forwards, so that a commit of anybody else's shows: it is neither overwritten nor believed. Where the cluster
declares the reporter's key, nothing but what that key has signed is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from allotment.adapters.git.branch import Branch
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import MOST_READ, Repository
from allotment.manifests.names import status_branch
from allotment.problems import Refused

SUMMARY, CLUSTER = "summary.md", "stocks.yaml"
_FOLDER = "tenants/"


def reported_ref(cluster: str) -> str:
    """Return the ref at the last commit of the cluster's reporter."""
    return f"refs/allotment/status/{cluster}"


def tenant_path(tenant: str) -> str:
    """Return the path of a tenant's status."""
    return f"{_FOLDER}{tenant}.yaml"


def tenant_of(path: str) -> str | None:
    """Return whose status a path holds; None for other files."""
    return path.removeprefix(_FOLDER).removesuffix(".yaml") if path.startswith(_FOLDER) else None


class Reported(NamedTuple):
    """A cluster's status branch as the remote had it: `believed` is the commit that counts, None where none does.

    `why` says in words what isn't as its reporter left it; empty where all is well.
    """

    branch: Branch
    believed: str | None
    why: str


def look_status(repository: Repository, remote: Remote, cluster: str, key: str | None = None) -> Reported:
    """Return what a remote holds of one cluster's status (`look_statuses`)."""
    return look_statuses(repository, remote, {cluster: key})[cluster]


def look_statuses(repository: Repository, remote: Remote, clusters: Mapping[str, str | None]) -> dict[str, Reported]:
    """Return what a remote holds of some clusters' statuses, asked for at once; `clusters` has the reporter's
    public SSH key of each, where one is declared. Raises Refused when the remote doesn't answer."""
    refs = remote.fetch(*(ref(name) for name in clusters for ref in (status_branch, reported_ref)), ours=True)
    return {name: _reported(repository, name, key, refs) for name, key in clusters.items()}


def _reported(repository: Repository, cluster: str, key: str | None, refs: Mapping[str, str]) -> Reported:
    tip, own = refs.get(status_branch(cluster)), refs.get(reported_ref(cluster))
    branch = Branch(repository, cluster, tip, own, None)
    try:
        _check_readable(repository, branch)
        signed = own is None or key is None or repository.is_signed_by(own, key)
    except Refused as error:
        unread = Branch(repository, cluster, tip, None, None, forged=own)
        return Reported(unread, None, f"commit {own} can't be read: {error}")
    if not signed:
        return Reported(branch, None, f"commit {own} is not signed with the cluster's key")
    if tip is None:
        return Reported(branch, own, "" if own is None else "its branch is gone")
    return Reported(branch, own, "" if tip == own else f"commit {tip} is not the reporter's")


def _check_readable(repository: Repository, branch: Branch) -> None:
    """Raise Refused where the files, or one of them, can't be read: who asks for them later needn't ask whether
    they can."""
    for blob, (kind, size) in repository.objects.info(branch.files.values()).items():
        if kind != "blob" or size > MOST_READ:
            raise Refused(f"object {blob} is no file of ours")
