"""Deletion: data goes in two merges. The first says so, the second removes the file. A rename or a move is a removal."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant
from allotment.problems import Finding
from allotment.rules.change import Change

RULE = "deletion"


def check(change: Change) -> Iterator[Finding]:
    """Check what is gone. Paths are those of the base: the files are no longer there."""
    for storage in change.removed(GPUStorage):
        if storage.model.spec.deletion_policy != "Delete":
            message = (
                f"storage {storage.model.name} would be deleted with its data (a rename is a deletion): put the file back,"
                " and to delete it merge deletionPolicy: Delete first"
            )
            yield Finding(storage.path, (), message, RULE, related=change.beside)
    for tenant in change.removed(Tenant):
        if tenant.model.spec.lifecycle != "Retired":
            message = (
                f"tenant {tenant.model.name} would be deleted (a rename is a deletion): put the file back,"
                " and to delete the tenant merge lifecycle: Retired first"
            )
            yield Finding(tenant.path, (), message, RULE, related=change.beside)
    for cluster in change.removed(Cluster):
        if cluster.model.spec.lifecycle != "Retired":
            message = f"cluster {cluster.model.name} would be deleted (a rename is a deletion): put the file back, and merge lifecycle: Retired first"
            yield Finding(cluster.path, (), message, RULE, related=change.beside)
