"""A commit of a cluster's status to a remote repository."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from allotment.adapters.git.commits import CommitMessage
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import read_status_branch
from allotment.declared.inventory import compute_blob_id
from allotment.observed.status import ClusterStatus, TenantStatus, dump_status

if TYPE_CHECKING:
    from tests.support.published import Place

AUTHOR = b"reporter <reporter@northlight.example> 1 +0000"


def report(place: Place, status: ClusterStatus) -> None:
    """Write what a reporter would have seen of a cluster."""
    write_report(place.root, str(place.remote), status)


def write_report(
    root: Path,
    url: str,
    status: ClusterStatus,
    tenants: Iterable[TenantStatus] = (),
    others: Mapping[str, bytes] = MappingProxyType({}),
) -> str:
    """Write what a reporter would have seen of a cluster and of tenants in it, and return the commit.

    `root` is a clone, and `url` the repository of the status branch. `others` has further files.
    """
    with Repository(root) as repository:
        remote = Remote(repository, url)
        branch = read_status_branch(repository, remote, status.cluster).branch
        data = {f"tenants/{tenant.tenant}.yaml": dump_status(tenant) for tenant in tenants}
        data |= {**others, "stocks.yaml": dump_status(status)}
        files = {path: compute_blob_id(text) for path, text in data.items()}
        commit = branch.create_commit(files, branch.compare_files(files), data, CommitMessage("Seen", AUTHOR))
        names = f"refs/heads/status/{status.cluster}", f"refs/allotment/status/{status.cluster}"
        assert remote.push(dict.fromkeys(names, commit))
        return commit
