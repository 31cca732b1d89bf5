"""Render a GPUStorage as a PersistentVolumeClaim with its preparation and file server, or as an ObjectBucketClaim."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.values import format_size
from allotment.manifests import names, pods
from allotment.manifests.tenant import accessor, preparation, wait_marker
from allotment.manifests.yaml_text import Frozen
from allotment.preparation.job_names import job_name
from allotment.preparation.runtime_state import RuntimeState
from allotment.preparation.sources import (
    find_blocking_source,
    find_cluster_storage,
    find_storage_spec,
    is_cloned_by_driver,
    is_prepared,
)


def render(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState,
    declared: DeclarationFile[GPUStorage],
) -> list[dict[str, Any]]:
    """Return a storage's objects, the volume or bucket first.

    A storage may be copied from another storage of the tenant. Until this source is prepared, a wait marker (a
    ConfigMap) replaces the storage's preparation Job. If the driver clones the source's volume, the marker also
    replaces the storage's volume and file server.
    """
    storage = declared.model
    spec = find_storage_spec(catalog, storage)
    assert spec is not None
    metadata = _build_metadata(tenant, storage)
    if spec.bucket is not None:
        return [_build_bucket_claim(catalog, declared, metadata)]
    source, cloned = find_blocking_source(tenant, runtime_state, storage), is_cloned_by_driver(catalog, tenant, storage)
    job = job_name(storage.name, storage.spec.prepare) if storage.spec.prepare is not None else ""
    objects = (
        [] if source and cloned else [_build_volume_claim(catalog, tenant, runtime_state, declared, metadata, job)]
    )
    if job and source:
        objects.append(wait_marker.render_wait_marker(metadata, storage.name, source, declared, job))
    elif job:
        objects.append(preparation.render(catalog, tenant, storage, metadata, job))
    if accessor.needs_accessor(storage) and not (source and cloned):
        objects += accessor.render(catalog, cluster, tenant, runtime_state, storage, metadata)
    return objects


@lru_cache(maxsize=8)
def _build_labels(tenant: str, storage: str) -> Frozen:
    return Frozen(names.labels(tenant=tenant, storage=storage))


def _build_metadata(tenant: ScopeDeclarations, storage: GPUStorage) -> dict[str, Any]:
    return {
        "name": storage.name,
        "namespace": names.namespace(tenant.name),
        "labels": _build_labels(tenant.name, storage.name),
    }


def _build_protected_metadata(declared: DeclarationFile[GPUStorage], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of an object that holds data, with the annotations that protect it and the billing labels."""
    storage = declared.model
    labels = {
        **metadata["labels"],
        names.STORAGE_SPEC: storage.spec.storage_spec,
        **pods.build_bill_labels(storage.metadata.labels),
    }
    annotations = {
        names.SYNC_OPTIONS: names.KEEP_OPTIONS,
        names.BLOB: declared.blob,
        names.DELETION_POLICY: storage.spec.deletion_policy,
        names.PROTECTED: "true",
    }
    return {**metadata, "labels": labels, "annotations": annotations}


def _build_volume_claim(
    catalog: Catalog,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState,
    declared: DeclarationFile[GPUStorage],
    metadata: dict[str, Any],
    job: str,
) -> dict[str, Any]:
    storage = declared.model
    spec, entry = find_storage_spec(catalog, storage), find_cluster_storage(catalog, storage)
    assert spec is not None and spec.volume is not None and entry is not None
    claim_metadata = _build_protected_metadata(declared, metadata)
    if job:
        claim_metadata["annotations"][names.PREPARES] = job
        if is_prepared(tenant, runtime_state, storage.name):
            claim_metadata["annotations"][names.PREPARED] = job
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": claim_metadata,
        "spec": {
            "accessModes": [spec.volume.access_mode],
            "storageClassName": entry.storage_class_name,
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": format_size(storage.spec.size)}},
            **_build_data_source(catalog, tenant, storage),
        },
    }


def _build_data_source(catalog: Catalog, tenant: ScopeDeclarations, storage: GPUStorage) -> dict[str, Any]:
    """Return the field with the source of the data in a new volume; empty if the driver creates an empty volume.

    The field is `dataSourceRef`, because Argo CD would always report a difference in any other field.
    """
    if storage.spec.prepare is None or not is_cloned_by_driver(catalog, tenant, storage):
        return {}
    source = storage.spec.prepare.source
    if source.snapshot is not None:
        group = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": source.snapshot.name}
        return {"dataSourceRef": group}
    assert source.storage is not None
    return {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": source.storage.name}}


def _build_bucket_claim(
    catalog: Catalog, declared: DeclarationFile[GPUStorage], metadata: dict[str, Any]
) -> dict[str, Any]:
    """Return the ObjectBucketClaim.

    Rook creates a Secret and a ConfigMap with the name of the claim. Instances get environment variables from both.
    """
    entry = find_cluster_storage(catalog, declared.model)
    assert entry is not None
    return {
        "apiVersion": "objectbucket.io/v1alpha1",
        "kind": "ObjectBucketClaim",
        "metadata": _build_protected_metadata(declared, metadata),
        "spec": {
            "generateBucketName": declared.model.name,
            "storageClassName": entry.storage_class_name,
            "additionalConfig": {"maxSize": format_size(declared.model.spec.size)},
        },
    }
