"""GPUStorage → PersistentVolumeClaim, the Job that prepares it, and the accessor that shows its files."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.accounts.preparation import input_hash, job_name
from allotment.accounts.readiness import waits_for
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage, Prepare
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import size_text
from allotment.manifests import exposure, names, pods
from allotment.manifests.text import Fixed

JOB_RESOURCES = Fixed(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "4", "memory": "8Gi"})
# It requests nothing: beside an instance on a full GPU node there is nothing left to request.
FILES_RESOURCES = Fixed(requests={"cpu": "0", "memory": "0"}, limits={"cpu": "1", "memory": "256Mi"})
NOT_ON_GPU_NODES = Fixed(
    nodeAffinity={
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}]}
            ]
        }
    }
)
FILES_PROBE = Fixed(tcpSocket={"port": "files"}, periodSeconds=10, timeoutSeconds=5, failureThreshold=3)


def render(offers: Offers, cluster: Folder, tenant: Folder, declared: Declared[GPUStorage]) -> list[dict[str, Any]]:
    """Return a storage's objects, the PVC first."""
    storage = declared.model
    objects = [_claim(offers, cluster, tenant, declared)]
    if storage.spec.prepare is not None:
        objects.append(_job(tenant, storage, storage.spec.prepare))
    if storage.spec.accessor is not None:
        objects += _accessor(offers, cluster, tenant, storage)
    return objects


@lru_cache(maxsize=8)
def _labels(tenant: str, storage: str) -> Fixed:
    return Fixed(names.labels(tenant=tenant, storage=storage))


def _metadata(tenant: Folder, storage: GPUStorage, name: str, **annotations: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": names.namespace(tenant.name),
        "labels": _labels(tenant.name, storage.name),
    }
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _claim(offers: Offers, cluster: Folder, tenant: Folder, declared: Declared[GPUStorage]) -> dict[str, Any]:
    storage, place = declared.model, cluster.one(Cluster)
    assert place is not None
    offer = offers.platform.of(StorageSpec)[storage.spec.storage_spec].model.spec
    storage_class = next(
        one.storage_class_name for one in place.model.spec.storages if one.storage_spec == storage.spec.storage_spec
    )
    metadata = _metadata(tenant, storage, storage.name)
    if storage.metadata.labels:
        metadata["labels"] = {**metadata["labels"], **pods.bill_labels(storage.metadata.labels)}
    metadata["annotations"] = {
        names.SYNC_OPTIONS: names.KEEP,
        names.BLOB: declared.blob,
        names.DELETION_POLICY: storage.spec.deletion_policy,
        names.PROTECTED: "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": {
            "accessModes": [offer.volume.access_mode],
            "storageClassName": storage_class,
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": size_text(storage.spec.size)}},
        },
    }


def _job(tenant: Folder, storage: GPUStorage, prepare: Prepare) -> dict[str, Any]:
    source = prepare.source.image
    assert source is not None
    labels = {**_labels(tenant.name, storage.name), names.ROLE: "prepare"}
    container = {
        "name": "prepare",
        "image": source.image,
        **({"command": list(source.command)} if source.command else {}),
        **({"args": list(source.args)} if source.args else {}),
        "resources": JOB_RESOURCES,
        "securityContext": pods.CONTAINER_SECURITY,
        "volumeMounts": [{"name": "workspace", "mountPath": "/workspace"}],
    }
    volume = {"name": "workspace", "persistentVolumeClaim": {"claimName": storage.name}}
    annotations = {names.INPUT_HASH: input_hash(prepare), names.ATTEMPT: str(prepare.attempt)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_metadata(tenant, storage, job_name(storage.name, prepare)), "annotations": annotations},
        "spec": {
            "backoffLimit": 2,
            "template": {
                "metadata": {"labels": labels},
                "spec": pods.pod(
                    names.STORAGE_PRIORITY, [container], [volume], restartPolicy="Never", affinity=NOT_ON_GPU_NODES
                ),
            },
        },
    }


def _accessor(offers: Offers, cluster: Folder, tenant: Folder, storage: GPUStorage) -> list[dict[str, Any]]:
    place, accessor = cluster.one(Cluster), storage.spec.accessor
    assert place is not None and accessor is not None
    name = f"{storage.name}--files"
    selector = {names.STORAGE: storage.name, names.ROLE: "files"}
    objects = [
        _files_deployment(offers, tenant, storage, name, selector),
        exposure.service(_metadata(tenant, storage, name), selector, [("files", names.FILES_PORT)]),
    ]
    if accessor.exposure != "Namespace":
        host = names.files_host(storage.name, tenant.name, place.model.spec.domain)
        route = _metadata(tenant, storage, name, **{names.EXTERNAL_LINK: f"https://{host}/"})
        objects.append(exposure.http_route(route, place.model.spec, host, name, names.FILES_PORT))
        policy = _metadata(tenant, storage, name)
        objects.append(
            exposure.security_policy(policy, place.model.spec, host, accessor.exposure, tenant, exposure.FILES_ROLES)
        )
    return objects


def _files_deployment(
    offers: Offers, tenant: Folder, storage: GPUStorage, name: str, selector: dict[str, str]
) -> dict[str, Any]:
    declared = tenant.one(Tenant)
    runs = declared is not None and declared.model.spec.lifecycle == "Active"
    container = {
        "name": "files",
        "image": names.FILES_IMAGE,
        "args": ["/data", "--port", str(names.FILES_PORT)],
        "ports": [{"name": "files", "containerPort": names.FILES_PORT, "protocol": "TCP"}],
        "resources": FILES_RESOURCES,
        "readinessProbe": FILES_PROBE,
        "securityContext": pods.READ_ONLY_SECURITY,
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": storage.name, "readOnly": True}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(tenant, storage, name),
        "spec": {
            "replicas": 1 if runs else 0,
            "revisionHistoryLimit": 2,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": {**names.labels(tenant=tenant.name), **selector}},
                "spec": pods.pod(
                    names.STORAGE_PRIORITY, [container], [volume], **_beside_its_user(offers, tenant, storage)
                ),
            },
        },
    }


def _beside_its_user(offers: Offers, tenant: Folder, storage: GPUStorage) -> dict[str, Any]:
    """A ReadWriteOnce volume is attached to one node: while an instance has it, the accessor goes where the instance is."""
    offer = offers.platform.of(StorageSpec)[storage.spec.storage_spec].model.spec
    users = [
        one.model.name
        for one in tenant.of(GPUInstance).values()
        if any(mount.name == storage.name for mount in one.model.spec.storages)
        and not waits_for(offers, tenant, one.model)
    ]
    if offer.volume.access_mode != "ReadWriteOnce" or not users:
        return {}
    term = {
        "labelSelector": {"matchExpressions": [{"key": names.INSTANCE, "operator": "In", "values": users}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"affinity": affinity, "tolerations": [pods.GPU_TOLERATION]}
