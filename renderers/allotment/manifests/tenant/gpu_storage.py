"""GPUStorage → PersistentVolumeClaim with what prepares and shows it, or ObjectBucketClaim."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.values import size_text
from allotment.manifests import names, pods
from allotment.manifests.tenant import accessor, preparation, waiting
from allotment.manifests.text import Fixed
from allotment.readiness.preparation import job_name
from allotment.readiness.sources import awaited, is_cloned_by_driver, is_prepared, offered, placed
from allotment.readiness.standing import Standing


def render(
    offers: Offers, cluster: Folder, tenant: Folder, standing: Standing, declared: Declared[GPUStorage]
) -> list[dict[str, Any]]:
    """Return a storage's objects, the volume or bucket first.

    What waits for another storage to be prepared has a marker for its Job, and for its volume too where that is
    made from the other's.
    """
    storage = declared.model
    spec = offered(offers, storage)
    assert spec is not None
    metadata = _metadata(tenant, storage)
    if spec.bucket is not None:
        return [_bucket(offers, declared, metadata)]
    source, cloned = awaited(tenant, standing, storage), is_cloned_by_driver(offers, tenant, storage)
    job = job_name(storage.name, storage.spec.prepare) if storage.spec.prepare is not None else ""
    objects = [] if source and cloned else [_claim(offers, tenant, standing, declared, metadata, job)]
    if job and source:
        objects.append(waiting.marker(metadata, storage.name, source, declared.blob, job))
    elif job:
        objects.append(preparation.render(offers, tenant, storage, metadata, job))
    if accessor.is_wanted(storage) and not (source and cloned):
        objects += accessor.render(offers, cluster, tenant, standing, storage, metadata)
    return objects


@lru_cache(maxsize=8)
def _labels(tenant: str, storage: str) -> Fixed:
    return Fixed(names.labels(tenant=tenant, storage=storage))


def _metadata(tenant: Folder, storage: GPUStorage) -> dict[str, Any]:
    return {
        "name": storage.name,
        "namespace": names.namespace(tenant.name),
        "labels": _labels(tenant.name, storage.name),
    }


def _kept(declared: Declared[GPUStorage], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of what holds data: protected, with the declared labels for the bill."""
    storage = declared.model
    labels = metadata["labels"]
    if storage.metadata.labels:
        labels = {**labels, **pods.bill_labels(storage.metadata.labels)}
    annotations = {
        names.SYNC_OPTIONS: names.KEEP,
        names.BLOB: declared.blob,
        names.DELETION_POLICY: storage.spec.deletion_policy,
        names.PROTECTED: "true",
    }
    return {**metadata, "labels": labels, "annotations": annotations}


def _claim(
    offers: Offers,
    tenant: Folder,
    standing: Standing,
    declared: Declared[GPUStorage],
    metadata: dict[str, Any],
    job: str,
) -> dict[str, Any]:
    storage = declared.model
    spec, entry = offered(offers, storage), placed(offers, storage)
    assert spec is not None and spec.volume is not None and entry is not None
    claim_metadata = _kept(declared, metadata)
    if job:
        claim_metadata["annotations"][names.PREPARES] = job
        if is_prepared(tenant, standing, storage.name):
            claim_metadata["annotations"][names.PREPARED] = job
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": claim_metadata,
        "spec": {
            "accessModes": [spec.volume.access_mode],
            "storageClassName": entry.storage_class_name,
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": size_text(storage.spec.size)}},
            **_data_source(offers, tenant, storage),
        },
    }


def _data_source(offers: Offers, tenant: Folder, storage: GPUStorage) -> dict[str, Any]:
    """Return what the driver makes the volume from, by the one field that Argo CD sees no difference in."""
    if storage.spec.prepare is None or not is_cloned_by_driver(offers, tenant, storage):
        return {}
    source = storage.spec.prepare.source
    if source.snapshot is not None:
        group = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": source.snapshot.name}
        return {"dataSourceRef": group}
    assert source.storage is not None
    return {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": source.storage.name}}


def _bucket(offers: Offers, declared: Declared[GPUStorage], metadata: dict[str, Any]) -> dict[str, Any]:
    """Rook makes a Secret and a ConfigMap of the claim's name, which instances take their environment from."""
    entry = placed(offers, declared.model)
    assert entry is not None
    return {
        "apiVersion": "objectbucket.io/v1alpha1",
        "kind": "ObjectBucketClaim",
        "metadata": _kept(declared, metadata),
        "spec": {
            "generateBucketName": declared.model.name,
            "storageClassName": entry.storage_class_name,
            "additionalConfig": {"maxSize": size_text(declared.model.spec.size)},
        },
    }
