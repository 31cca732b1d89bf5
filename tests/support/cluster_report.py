"""A commit of a cluster's status to a remote repository."""

from __future__ import annotations

from allotment.observed.status import ClusterStatus, dump_status
from tests.support.published import Place


def report(place: Place, status: ClusterStatus) -> None:
    """Write what a reporter would have seen of a cluster."""
    from allotment.adapters.git.commits import CommitMessage
    from allotment.adapters.git.remote import Remote
    from allotment.adapters.git.repository import Repository
    from allotment.branches.status_branches import read_status_branch
    from allotment.declared.inventory import compute_blob_id

    remote = Remote(Repository(place.root), str(place.remote))
    branch = read_status_branch(remote.repository, remote, status.cluster).branch
    data = {"stocks.yaml": dump_status(status)}
    files = {path: compute_blob_id(text) for path, text in data.items()}
    message = CommitMessage("Seen", b"reporter <reporter@northlight.example> 1 +0000")
    commit = branch.create_commit(files, branch.compare_files(files), data, message)
    refs = f"refs/heads/status/{status.cluster}", f"refs/allotment/status/{status.cluster}"
    assert remote.push(dict.fromkeys(refs, commit))
