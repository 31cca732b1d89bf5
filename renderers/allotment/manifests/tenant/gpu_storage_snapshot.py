"""Render a GPUStorageSnapshot as a VolumeSnapshot, once its storage is prepared."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.tenant_resources import SNAPSHOT
from allotment.manifests import names, pods
from allotment.manifests.tenant import wait_marker
from allotment.preparation.runtime_state import RuntimeState
from allotment.preparation.sources import find_cluster_storage, is_prepared


def render(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState,
    declared: DeclarationFile[GPUStorageSnapshot],
) -> list[dict[str, Any]]:
    """Return the VolumeSnapshot, or a wait marker (a ConfigMap) until the storage is prepared."""
    snapshot = declared.model
    storage = tenant.of_kind(GPUStorage)[snapshot.spec.storage].model
    entry = find_cluster_storage(catalog, storage)
    assert entry is not None and entry.volume_snapshot_class_name is not None
    metadata: dict[str, Any] = {
        "name": snapshot.name,
        "namespace": names.namespace(tenant.name),
        "labels": {
            **names.labels(tenant=tenant.name, snapshot=snapshot.name),
            **pods.build_bill_labels(snapshot.metadata.labels),
        },
    }
    if not is_prepared(tenant, runtime_state, storage.name):
        stem = SNAPSHOT.file_stem(snapshot.name)
        return [wait_marker.render_wait_marker(metadata, stem, storage.name, declared)]
    labels = {**metadata["labels"], names.STORAGE_SPEC: storage.spec.storage_spec}
    annotations = {
        names.SYNC_OPTIONS: names.KEEP_OPTIONS,
        names.BLOB: declared.blob,
        names.DELETION_POLICY: snapshot.spec.deletion_policy,
        names.PROTECTED: "true",
    }
    return [
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {**metadata, "labels": labels, "annotations": annotations},
            "spec": {
                "volumeSnapshotClassName": entry.volume_snapshot_class_name,
                "source": {"persistentVolumeClaimName": storage.name},
            },
        }
    ]
