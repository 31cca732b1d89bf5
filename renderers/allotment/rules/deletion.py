"""Deletion: a storage, snapshot, tenant or cluster is deleted in two merges.

The first merge sets deletionPolicy: Delete or lifecycle: Retired, and the second merge removes the file. The rule
treats a renamed or moved file as removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.tenant import Tenant
from allotment.problems import Finding
from allotment.rules.folder_change import FolderChange

RULE = "deletion"


def check(change: FolderChange) -> Iterator[Finding]:
    """Check removed declarations. A finding has the path of the file at the base, because the file no longer exists."""
    for storage in change.removed_declarations(GPUStorage):
        if storage.model.spec.deletion_policy != "Delete":
            yield storage_removal_finding(storage.path, storage.model.name)._replace(related=change.current_paths)
    for snapshot in change.removed_declarations(GPUStorageSnapshot):
        if snapshot.model.spec.deletion_policy != "Delete":
            yield snapshot_removal_finding(snapshot.path, snapshot.model.name)._replace(related=change.current_paths)
    for tenant in change.removed_declarations(Tenant):
        if tenant.model.spec.lifecycle != "Retired":
            yield tenant_removal_finding(tenant.path, tenant.model.name)._replace(related=change.current_paths)
    for cluster in change.removed_declarations(Cluster):
        if cluster.model.spec.lifecycle != "Retired":
            message = f"cluster {cluster.model.name} would be deleted (a rename is a deletion): put the file back; to delete the cluster, first merge lifecycle: Retired"
            yield Finding(cluster.path, (), message, RULE, related=change.current_paths)


def storage_removal_finding(path: str, name: str) -> Finding:
    """Return the finding about a removed storage that was not marked for deletion."""
    message = (
        f"storage {name} would be deleted with its data (a rename is a deletion): put the file back;"
        " to delete it, first merge and publish deletionPolicy: Delete"
    )
    return Finding(path, (), message, RULE)


def snapshot_removal_finding(path: str, name: str) -> Finding:
    """Return the finding about a removed snapshot that was not marked for deletion."""
    message = (
        f"snapshot {name} would be deleted (a rename is a deletion): put the file back;"
        " to delete it, first merge and publish deletionPolicy: Delete"
    )
    return Finding(path, (), message, RULE)


def tenant_removal_finding(path: str, name: str) -> Finding:
    """Return the finding about a removed tenant that was not retired."""
    message = (
        f"tenant {name} would be deleted (a rename is a deletion): put the file back;"
        " to delete the tenant, first merge lifecycle: Retired"
    )
    return Finding(path, (), message, RULE)
