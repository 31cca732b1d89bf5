"""Snapshots: the StorageSpec of the copied volume has prices for snapshots, and the cluster supports such snapshots.

A bucket can't have snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.preparation.sources import find_cluster_storage, find_storage_spec
from allotment.problems import Finding

RULE = "snapshot"


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check a tenant's snapshots."""
    storages = tenant.of_kind(GPUStorage)
    for snapshot in tenant.of_kind(GPUStorageSnapshot).values():
        name = snapshot.model.spec.storage
        storage = storages.get(name)
        if storage is None:
            continue
        spec, entry, kind = (
            find_storage_spec(catalog, storage.model),
            find_cluster_storage(catalog, storage.model),
            storage.model.spec.storage_spec,
        )
        if spec is not None and not spec.snapshot_prices:
            why = "is a bucket" if spec.bucket is not None else "has no snapshotPrices"
            message = f"storage {name} is of {kind}, which {why}: it can't have snapshots"
            yield snapshot.make_finding("spec.storage", message, RULE, related=(storage.path,))
        elif entry is not None and entry.volume_snapshot_class_name is None:
            message = (
                f"storage {name} is in cluster {storage.model.spec.cluster}, which supports no snapshots of {kind}"
            )
            yield snapshot.make_finding("spec.storage", message, RULE, related=(storage.path,))
