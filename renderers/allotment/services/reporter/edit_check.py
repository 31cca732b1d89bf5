"""Compares, for `allot doctor`, the live objects of a cluster with their published manifests."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.platform_settings import ORIGIN, read_publisher_key
from allotment.branches.rendered_branches import read_rendered_branches
from allotment.diagnosis.cluster_snapshot import (
    APPLICATIONS,
    WHOLE_OBJECT_QUERIES,
    ClusterSnapshot,
    NotReadable,
    Object,
)
from allotment.diagnosis.edits import EditComparison
from allotment.manifests import names
from allotment.manifests.yaml_text import Malformed
from allotment.observed.edits import ManualEdit
from allotment.observed.objects import PLATFORM_OWNER, LiveObject
from allotment.observed.status import ApplicationStatus, TenantStatus
from allotment.problems import OperationRefused
from allotment.services.reporter import edit_detection
from allotment.services.reporter.published_objects import PublishedBranch

PREFETCHED_TENANTS = 50  # the published files of so many tenants are read with one request
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class PublishedCommit(NamedTuple):
    """The last published commit of a cluster and its remote, or the reason why there is none.

    `skip_reason` says why there is nothing to compare, although nothing failed. `failure_reason` is the error that
    prevents the comparison.
    """

    repository: Repository | None = None
    remote: Remote | None = None
    commit: str = ""
    skip_reason: str = ""
    failure_reason: str = ""


def fetch_published_commit(root: Path, cluster: str) -> PublishedCommit:
    """Fetch a cluster's rendered branch into the repository that contains `root`. Return the last published commit."""
    try:
        clone = DeclarationsClone(root)
        has_origin = clone.has_origin
    except OperationRefused:
        return PublishedCommit(
            skip_reason="this folder is not in a Git repository, so the published manifests are not available"
        )
    if not has_origin:
        message = f"this repository has no remote named {ORIGIN} for the rendered branches"
        return PublishedCommit(skip_reason=message)
    try:
        declared = clone.fetch_declared_commit()
        if declared.missing_branch:
            return PublishedCommit(
                skip_reason=f"{ORIGIN} has no branch {declared.missing_branch}, so nothing counts as merged"
            )
        remote = clone.remote(clone.resolve_urls(declared).rendered)
        key = read_publisher_key(clone.find_settings_commit(declared))
        commit = read_rendered_branches(clone.repository, remote, [cluster], key).branches[cluster].published_commit
    except OperationRefused as error:
        return PublishedCommit(failure_reason=str(error))
    if commit is None:
        return PublishedCommit(skip_reason=f"nothing has been published to {cluster} yet")
    return PublishedCommit(clone.repository, remote, commit)


def compare_live_objects(
    published: PublishedCommit, cluster: str, snapshot: ClusterSnapshot, begun: datetime.datetime
) -> EditComparison:
    """Return the differences between the live objects of tenants and of the platform and their published manifests.

    `begun` is the time when the fetch of the branch began, by the cluster's clock. An object that was created after
    this time may belong to a later publish.
    """
    if published.repository is None or published.remote is None:
        return EditComparison(skipped=published.skip_reason, failed=published.failure_reason)
    branch = PublishedBranch(published.repository, published.remote, cluster, lambda: begun.strftime(_TIME_FORMAT))
    try:
        branch.read_commit(published.commit)
        return _compare_tenants(published, cluster, snapshot, branch)
    except (OperationRefused, Malformed) as error:
        return EditComparison(failed=f"the published manifests can't be read: {error}")


def _compare_tenants(
    published: PublishedCommit, cluster: str, snapshot: ClusterSnapshot, branch: PublishedBranch
) -> EditComparison:
    """Return the comparison. Raises OperationRefused or Malformed if a published file can't be read."""
    assert published.repository is not None
    live, unseen = defaultdict[str, list[LiveObject]](list), list[NotReadable]()
    for kind in WHOLE_OBJECT_QUERIES:
        try:
            for live_object in snapshot.list_objects(kind):
                live[live_object.tenant].append(live_object)
        except NotReadable as error:
            if (
                error.missing_permission or error.failed
            ):  # an API that isn't served has no objects; the topic `apis` reports each needed API that isn't served
                unseen.append(error)
    statuses = {status.tenant: status for status in _read_synced_statuses(published.repository, cluster, snapshot)}
    comparison = edit_detection.EditDetector(branch)
    comparison.platform_revisions = _read_platform_revisions(cluster, snapshot)
    age = snapshot.now.timestamp() - published.repository.committed_at(published.commit)
    edits, unsynced, count = list[ManualEdit](), list[str](), 0
    tenants = sorted({*branch.tenants, PLATFORM_OWNER})
    for number, tenant in enumerate(tenants):
        if number % PREFETCHED_TENANTS == 0:
            branch.prefetch(tenants[number : number + PREFETCHED_TENANTS])
        if tenant not in live:
            continue
        status, published_objects = statuses.get(tenant) or TenantStatus(tenant, cluster), branch.find_published(tenant)
        assert published_objects is not None, "the branch was read"
        files = branch.list_files(tenant)
        count += sum((live_object.kind, live_object.name) in files for live_object in live[tenant])
        is_recent = age < edit_detection.UNSYNCED_SECONDS
        edits += comparison.detect_edits_now(status, live[tenant], published_objects, "", is_recent=is_recent)
        if not comparison.is_synced(status):
            unsynced.append(tenant)
    return EditComparison(edits, count, unseen, unsynced)


def _list_applications(cluster: str, snapshot: ClusterSnapshot) -> list[Object]:
    """Return the Applications of a cluster; empty if they can't be read, which the topic `argocd` reports."""
    try:
        applications = snapshot.list_objects(APPLICATIONS)
    except NotReadable:
        return []
    return [each for each in applications if each["metadata"].get("labels", {}).get(names.CLUSTER) == cluster]


def _read_platform_revisions(cluster: str, snapshot: ClusterSnapshot) -> frozenset[str]:
    """Return the commits that the Applications of the platform have applied; empty if one of them is not synced."""
    states = [
        application.get("status", {}).get("sync", {})
        for application in _list_applications(cluster, snapshot)
        if names.TENANT not in application["metadata"]["labels"]
    ]
    is_synced = all(state.get("status") == "Synced" for state in states)
    return frozenset(state.get("revision", "") for state in states) if is_synced else frozenset()


def _read_synced_statuses(repository: Repository, cluster: str, snapshot: ClusterSnapshot) -> Iterable[TenantStatus]:
    """Return a status for each tenant with synced Applications.

    The status has the Git tree that each synced Application has applied.
    """
    parts_by_tenant = defaultdict[str, list[ApplicationStatus]](list)
    for application in _list_applications(cluster, snapshot):
        labels, sync = application["metadata"]["labels"], application.get("status", {}).get("sync", {})
        tenant, revision = labels.get(names.TENANT, ""), sync.get("revision", "")
        part = application["metadata"]["name"].rpartition("--")[2]
        if sync.get("status") != "Synced" or not repository.has_object(revision):
            continue
        tree = repository.tree_of(revision, f"tenants/{tenant}/{part}") or ""
        parts_by_tenant[tenant].append(ApplicationStatus(part, "Synced", "", "", tree))
    return [TenantStatus(tenant, cluster, tuple(parts)) for tenant, parts in parts_by_tenant.items()]
