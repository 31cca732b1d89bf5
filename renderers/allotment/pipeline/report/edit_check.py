"""Compares once, for `allot doctor`, the live objects of a cluster's tenants with the manifests that are published to it."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.rendered import look
from allotment.adapters.git.repository import Repository
from allotment.diagnosis.edits import Comparison
from allotment.diagnosis.looked import APPLICATIONS, WHOLE, Looked, Object, Unseen
from allotment.manifests import names
from allotment.manifests.text import Malformed
from allotment.observed.edits import Edit
from allotment.observed.objects import LiveObject
from allotment.observed.status import ApplicationStatus, TenantStatus
from allotment.pipeline.declared import publisher_key
from allotment.pipeline.report import comparing
from allotment.pipeline.report.clone import ORIGIN, Clone
from allotment.pipeline.report.published import PublishedBranch
from allotment.problems import Refused

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class PublishedCommit(NamedTuple):
    """The last publish on a cluster's rendered branch, and its remote; or why there is none: `skipped` where nothing can be
    compared, `failed` where it should be possible."""

    repository: Repository | None = None
    remote: Remote | None = None
    commit: str = ""
    skipped: str = ""
    failed: str = ""


def published_commit(root: Path, cluster: str) -> PublishedCommit:
    """Fetch a cluster's rendered branch into the repository around `root`. Returns the last publish, as `allot status`
    determines it."""
    try:
        clone = Clone(root)
        has_origin = clone.has_origin
    except Refused:
        return PublishedCommit(skipped="this folder is in no Git repository, so the published manifests aren't here")
    if not has_origin:
        words = f"this repository has no remote named {ORIGIN}, which the rendered branches would lie in"
        return PublishedCommit(skipped=words)
    try:
        declared = clone.declared()
        remote = clone.remote(clone.places(declared).rendered)
        key = publisher_key(clone.settings(declared))
        commit = look(clone.repository, remote, [cluster], key).branches[cluster].published
    except Refused as error:
        return PublishedCommit(failed=str(error))
    if commit is None:
        return PublishedCommit(skipped=f"nothing was ever published to {cluster}")
    return PublishedCommit(clone.repository, remote, commit)


def compare_live(published: PublishedCommit, cluster: str, looked: Looked, begun: datetime.datetime) -> Comparison:
    """Return the differences in tenants' namespaces. `begun` is when the branch was fetched, by the cluster's clock: a
    later publish may have made an object that is newer."""
    if published.repository is None or published.remote is None:
        return Comparison(skipped=published.skipped, failed=published.failed)
    branch = PublishedBranch(published.repository, published.remote, cluster, lambda: begun.strftime(_TIME))
    try:
        branch.take(published.commit)
        return _compared(published, cluster, looked, branch)
    except (Refused, Malformed) as error:
        return Comparison(failed=f"the published manifests can't be read: {error}")


def _compared(published: PublishedCommit, cluster: str, looked: Looked, branch: PublishedBranch) -> Comparison:
    """Return the comparison. Raises Refused or Malformed where a published file can't be read."""
    assert published.repository is not None
    live, unseen = defaultdict[str, list[LiveObject]](list), list[Unseen]()
    for kind in WHOLE:
        try:
            for live_object in looked.all(kind):
                live[live_object.tenant].append(live_object)
        except Unseen as error:
            if (
                error.right or error.failed
            ):  # a kind that isn't served has no objects: the topic apis says if it is needed
                unseen.append(error)
    statuses = {status.tenant: status for status in _statuses(published.repository, cluster, looked)}
    age = looked.now.timestamp() - published.repository.committed_at(published.commit)
    comparison, edits, unsynced, count = comparing.Comparison(branch), list[Edit](), list[str](), 0
    for tenant in sorted(live.keys() & branch.tenants):
        status, published_objects = statuses.get(tenant) or TenantStatus(tenant, cluster), branch.of(tenant)
        assert published_objects is not None, "the branch was read"
        count += len(live[tenant])
        is_recent = age < comparing.UNSYNCED_SECONDS
        edits += comparison.compare_once(status, live[tenant], published_objects, "", is_recent=is_recent)
        if not comparison.is_synced(status):
            unsynced.append(tenant)
    return Comparison(edits, count, unseen, unsynced)


def _statuses(repository: Repository, cluster: str, looked: Looked) -> Iterable[TenantStatus]:
    """Return the tenants with those of their Applications that are synced, each with the tree that it has applied."""
    try:
        applications: list[Object] = looked.all(APPLICATIONS)
    except Unseen:
        return []  # the topic argocd says so
    parts_by_tenant = defaultdict[str, list[ApplicationStatus]](list)
    for application in applications:
        labels, sync = application["metadata"].get("labels", {}), application.get("status", {}).get("sync", {})
        tenant, revision = labels.get(names.TENANT, ""), sync.get("revision", "")
        part = application["metadata"]["name"].rpartition("--")[2]
        if labels.get(names.CLUSTER) != cluster or sync.get("status") != "Synced" or not repository.has(revision):
            continue
        tree = repository.tree_of(revision, f"tenants/{tenant}/{part}") or ""
        parts_by_tenant[tenant].append(ApplicationStatus(part, "Synced", "", "", tree))
    return [TenantStatus(tenant, cluster, tuple(parts)) for tenant, parts in parts_by_tenant.items()]
