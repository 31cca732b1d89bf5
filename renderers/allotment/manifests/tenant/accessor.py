"""GPUStorage → the file server that shows what is on it: read-only, in the cluster, and behind a login where that
is declared."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.tenant import Tenant
from allotment.manifests import names, pods
from allotment.manifests.tenant import exposure
from allotment.manifests.text import Fixed
from allotment.programs.volume import LEFT_OUT
from allotment.readiness.instances import waits_for
from allotment.readiness.sources import writes_once
from allotment.readiness.standing import Standing

# It requests nothing: beside an instance on a full GPU node there is nothing left to request.
RESOURCES = Fixed(requests={"cpu": "0", "memory": "0"}, limits={"cpu": "1", "memory": "256Mi"})
PROBE = Fixed(tcpSocket={"port": "files"}, periodSeconds=10, timeoutSeconds=5, failureThreshold=3)
GRACE_SECONDS = 1  # the program hears nobody who asks it to end, it only reads, and what replaces it waits for it
ARGS = ["/data", "--port", str(names.FILES_PORT), "--hidden", ",".join(sorted(LEFT_OUT))]


def is_wanted(storage: GPUStorage) -> bool:
    """Return whether a storage has one: declared, or because others copy from it."""
    return storage.spec.accessor is not None or bool(storage.spec.shared_with)


def render(
    offers: Offers, cluster: Folder, tenant: Folder, standing: Standing, storage: GPUStorage, metadata: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a storage's file server; `metadata` is what the storage's objects share."""
    place = cluster.one(Cluster)
    assert place is not None
    name = names.files_service(storage.name)
    selector = {names.STORAGE: storage.name, names.ROLE: names.FILES_ROLE}
    own = {**metadata, "name": name}
    objects = [
        _deployment(offers, cluster, tenant, standing=standing, storage=storage, metadata=own, selector=selector),
        exposure.service(own, selector, [("files", names.FILES_PORT)]),
    ]
    shown = storage.spec.accessor.exposure if storage.spec.accessor is not None else "Namespace"
    if shown != "Namespace":
        host = names.files_host(storage.name, tenant.name, place.model.spec.domain)
        route = {**own, "annotations": {names.EXTERNAL_LINK: f"https://{host}/"}}
        objects.append(exposure.http_route(route, place.model.spec, host, name, names.FILES_PORT))
        roles = exposure.FILES_ROLES
        objects.append(exposure.security_policy(own, place.model.spec, host, shown, tenant, roles))
    return objects


def _deployment(
    offers: Offers,
    cluster: Folder,
    tenant: Folder,
    *,
    standing: Standing,
    storage: GPUStorage,
    metadata: dict[str, Any],
    selector: dict[str, str],
) -> dict[str, Any]:
    declared, platform = tenant.one(Tenant), offers.platform.one(Platform)
    assert platform is not None and platform.model.spec.images.files is not None
    runs = declared is not None and declared.model.spec.lifecycle == "Active"
    container = {
        "name": "files",
        "image": platform.model.spec.images.files,
        "args": ARGS,
        "ports": [{"name": "files", "containerPort": names.FILES_PORT, "protocol": "TCP"}],
        "resources": RESOURCES,
        "readinessProbe": PROBE,
        "securityContext": pods.READ_ONLY_SECURITY,
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": storage.name, "readOnly": True}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1 if runs else 0,
            "revisionHistoryLimit": 2,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": {**names.labels(tenant=tenant.name), **selector}},
                "spec": pods.pod(
                    names.STORAGE_PRIORITY,
                    [container],
                    [volume],
                    terminationGracePeriodSeconds=GRACE_SECONDS,
                    **_placement(offers, cluster, tenant, standing, storage),
                ),
            },
        },
    }


def _placement(
    offers: Offers, cluster: Folder, tenant: Folder, standing: Standing, storage: GPUStorage
) -> dict[str, Any]:
    """A ReadWriteOnce volume is attached to one node: where an instance has it, or where its preparation is."""
    pools = pods.storage_pools(cluster)
    anywhere: dict[str, Any] = {"nodeAffinity": pods.node_affinity(pools)} if pools else {}
    more = {"tolerations": [pods.GPU_TOLERATION]} if pools else {}
    if not writes_once(offers, storage):
        return {**({"affinity": anywhere} if anywhere else {}), **more}
    users = [
        instance.model.name
        for instance in tenant.of(GPUInstance).values()
        if instance.model.spec.mounts(storage.name) and not waits_for(offers, tenant, standing, instance.model)
    ]
    if not users:
        return {"affinity": {**anywhere, "podAffinity": pods.beside_others_of(storage.name)}, **more}
    term = {
        "labelSelector": {"matchExpressions": [{"key": names.INSTANCE, "operator": "In", "values": users}]},
        "topologyKey": pods.HOST,
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"affinity": affinity, "tolerations": [pods.GPU_TOLERATION]}
