"""Determines the source of a storage's content, whether the source is prepared, and whether the driver clones it."""

from __future__ import annotations

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, ClusterStorage
from allotment.declared.kinds.gpu_storage import GPUStorage, StorageSource
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.storage_spec import StorageSpec, StorageSpecSpec
from allotment.preparation.job_names import job_name
from allotment.preparation.runtime_state import RuntimeState


def find_storage_spec(catalog: Catalog, storage: GPUStorage) -> StorageSpecSpec | None:
    """Return the declared properties of a storage's StorageSpec; None if the StorageSpec is not declared."""
    spec = catalog.platform.of_kind(StorageSpec).get(storage.spec.storage_spec)
    return spec.model.spec if spec is not None else None


def find_cluster_storage(catalog: Catalog, storage: GPUStorage) -> ClusterStorage | None:
    """Return the entry for a storage's StorageSpec in the declaration of the storage's cluster; None if absent."""
    cluster = catalog.clusters.get(storage.spec.cluster)
    declared = cluster.get_singleton(Cluster) if cluster is not None else None
    entries = declared.model.spec.storages if declared is not None else []
    return next((entry for entry in entries if entry.storage_spec == storage.spec.storage_spec), None)


def is_bucket(catalog: Catalog, storage: GPUStorage) -> bool:
    """Return whether a storage is a bucket, not a volume."""
    spec = find_storage_spec(catalog, storage)
    return spec is not None and spec.bucket is not None


def is_single_writer(catalog: Catalog, storage: GPUStorage) -> bool:
    """Return whether only a single node at a time may mount a storage."""
    spec = find_storage_spec(catalog, storage)
    return spec is not None and spec.is_single_node


def foreign_source(storage: GPUStorage, tenant: str) -> StorageSource | None:
    """Return the source of a storage if this source is a storage of another tenant; otherwise None."""
    source = storage.spec.prepare.source.storage if storage.spec.prepare else None
    return source if source is not None and source.tenant not in (None, tenant) else None


def own_source(tenant: ScopeDeclarations, storage: GPUStorage) -> DeclarationFile[GPUStorage] | None:
    """Return the source of a storage if this source is a storage of the same tenant; otherwise None.

    If the storage is prepared from a snapshot, the source is the storage of the snapshot.
    """
    if storage.spec.prepare is None:
        return None
    source = storage.spec.prepare.source
    name = None
    if source.storage is not None and source.storage.tenant in (None, tenant.name):
        name = source.storage.name
    elif source.snapshot is not None:
        snapshot = tenant.of_kind(GPUStorageSnapshot).get(source.snapshot.name)
        name = snapshot.model.spec.storage if snapshot is not None else None
    return tenant.of_kind(GPUStorage).get(name) if name is not None else None


def is_cloned_by_driver(catalog: Catalog, tenant: ScopeDeclarations, storage: GPUStorage) -> bool:
    """Return whether the storage driver creates the volume of a storage as a clone.

    The volume of a storage that is prepared from a snapshot is always a clone. The volume of a storage that is prepared
    from another storage is a clone only if both storages have the same StorageSpec, and the cluster declares
    `cloning: Volume` for this StorageSpec.
    """
    if storage.spec.prepare is None:
        return False
    if storage.spec.prepare.source.snapshot is not None:
        return True
    source, entry = own_source(tenant, storage), find_cluster_storage(catalog, storage)
    same = source is not None and source.model.spec.storage_spec == storage.spec.storage_spec
    return same and entry is not None and entry.cloning == "Volume"


def is_prepared(tenant: ScopeDeclarations, runtime_state: RuntimeState, name: str) -> bool:
    """Return True if a tenant's storage needs no preparation, or if its preparation has succeeded."""
    storage = tenant.of_kind(GPUStorage)[name].model
    if storage.spec.prepare is None:
        return True
    job = job_name(name, storage.spec.prepare)
    return runtime_state.has_succeeded(storage.spec.cluster, job)


def find_blocking_source(tenant: ScopeDeclarations, runtime_state: RuntimeState, storage: GPUStorage) -> str:
    """Return the name of the tenant's own storage that must be prepared before `storage`; empty if there is none."""
    source = own_source(tenant, storage)
    if source is None or is_prepared(tenant, runtime_state, source.model.name):
        return ""
    return source.model.name
