"""GPUStorageSnapshot → VolumeSnapshot, once its storage is prepared."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.things import SNAPSHOT
from allotment.manifests import names, pods
from allotment.manifests.tenant import waiting
from allotment.readiness.sources import is_prepared, placed
from allotment.readiness.standing import Standing


def render(
    offers: Offers, cluster: Folder, tenant: Folder, standing: Standing, declared: Declared[GPUStorageSnapshot]
) -> list[dict[str, Any]]:
    """Return the snapshot, or what stands for it while its storage is being prepared."""
    snapshot = declared.model
    storage = tenant.of(GPUStorage)[snapshot.spec.storage].model
    entry = placed(offers, storage)
    assert entry is not None and entry.volume_snapshot_class_name is not None
    metadata = {
        "name": snapshot.name,
        "namespace": names.namespace(tenant.name),
        "labels": {
            **names.labels(tenant=tenant.name, snapshot=snapshot.name),
            **pods.bill_labels(snapshot.metadata.labels),
        },
    }
    if not is_prepared(tenant, standing, storage.name):
        stem = SNAPSHOT.stem(snapshot.name)
        return [waiting.marker(metadata, stem, storage.name, declared.blob)]
    annotations = {
        names.SYNC_OPTIONS: names.KEEP,
        names.BLOB: declared.blob,
        names.DELETION_POLICY: snapshot.spec.deletion_policy,
        names.PROTECTED: "true",
    }
    return [
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {**metadata, "annotations": annotations},
            "spec": {
                "volumeSnapshotClassName": entry.volume_snapshot_class_name,
                "source": {"persistentVolumeClaimName": storage.name},
            },
        }
    ]
