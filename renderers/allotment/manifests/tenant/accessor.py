"""Render the file server of a GPUStorage: inside the cluster, and at a URL if declared. It writes only if declared."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.tenant import Tenant
from allotment.manifests import names, pods
from allotment.manifests.tenant import exposure
from allotment.manifests.yaml_text import Frozen
from allotment.preparation.runtime_state import RuntimeState
from allotment.preparation.sources import is_prepared, is_single_writer
from allotment.preparation.start_gates import find_start_gates
from allotment.programs.volume import LEFT_OUT

# The server may run on a GPU node where instances request all CPU and memory, so the server requests none.
SERVER_RESOURCES = Frozen(requests={"cpu": "0", "memory": "0"}, limits={"cpu": "1", "memory": "256Mi"})
READINESS_PROBE = Frozen(tcpSocket={"port": "files"}, periodSeconds=10, timeoutSeconds=5, failureThreshold=3)
# The server ignores SIGTERM, and its replacement starts only after the server has ended, so each second would delay every
# restart. A kill does no harm: the server writes an upload in order, so an interrupted file is a prefix of the upload. The
# client reads the size of the file, and sends the rest.
GRACE_SECONDS = 1
SERVER_ARGS = ["/data", "--port", str(names.FILES_PORT), "--hidden", ",".join(sorted(LEFT_OUT)), "--allow-hash"]
# Without --allow-delete, the server would refuse to replace or move a file, so no client could upload to a temporary name
# and then rename. --allow-symlink and --enable-cors stay absent. With the first, a link would lead out of the volume. With
# the second, a page of another origin could write with the login of a member: all writing methods need the consent of the
# server (a CORS preflight), and the server changes nothing on a POST.
WRITER_ARGS = [*SERVER_ARGS, "--allow-upload", "--allow-delete"]


def needs_accessor(storage: GPUStorage) -> bool:
    """Return whether a storage has a file server: it declares an accessor, or other tenants copy from it."""
    return storage.spec.accessor is not None or bool(storage.spec.shared_with)


def is_writable(tenant: ScopeDeclarations, runtime_state: RuntimeState, storage: GPUStorage) -> bool:
    """Return whether the file server may change files now.

    Until the preparation has succeeded, only the preparation may write to the volume.
    """
    accessor = storage.spec.accessor
    return accessor is not None and accessor.allows_writing and is_prepared(tenant, runtime_state, storage.name)


def render(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState,
    storage: GPUStorage,
    metadata: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return the objects of a storage's file server; `metadata` is the common metadata of the storage's objects."""
    place = cluster.get_singleton(Cluster)
    assert place is not None
    name = names.files_service(storage.name)
    selector = {names.STORAGE: storage.name, names.ROLE: names.FILES_ROLE}
    own = {**metadata, "name": name}
    objects = [
        _build_deployment(
            catalog, cluster, tenant, runtime_state=runtime_state, storage=storage, metadata=own, selector=selector
        ),
        exposure.build_service(own, selector, [("files", names.FILES_PORT)]),
    ]
    file_exposure = storage.spec.accessor.exposure if storage.spec.accessor is not None else "Namespace"
    if file_exposure != "Namespace":
        host = names.files_host(storage.name, tenant.name, place.model.spec.domain)
        route = {**own, "annotations": {names.EXTERNAL_LINK: f"https://{host}/"}}
        objects.append(exposure.build_http_route(route, place.model.spec, host, name, names.FILES_PORT, file_exposure))
        # A Viewer only reads in both modes. Argo CD does not apply the Deployment and the SecurityPolicy at the same
        # time, so a change of the mode must not depend on a change of the SecurityPolicy.
        objects.append(
            exposure.build_security_policy(
                own,
                place.model.spec,
                host,
                file_exposure,
                tenant,
                exposure.FILES_WRITERS,
                reader_roles=exposure.FILES_READERS,
            )
        )
    return objects


def _build_deployment(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    *,
    runtime_state: RuntimeState,
    storage: GPUStorage,
    metadata: dict[str, Any],
    selector: dict[str, str],
) -> dict[str, Any]:
    declared, platform = tenant.get_singleton(Tenant), catalog.platform.get_singleton(Platform)
    assert platform is not None and platform.model.spec.images.files is not None
    runs = declared is not None and declared.model.spec.lifecycle == "Active"
    read_only = {} if is_writable(tenant, runtime_state, storage) else {"readOnly": True}
    container = {
        "name": "files",
        "image": platform.model.spec.images.files,
        "args": SERVER_ARGS if read_only else WRITER_ARGS,
        "ports": [{"name": "files", "containerPort": names.FILES_PORT, "protocol": "TCP"}],
        "resources": SERVER_RESOURCES,
        "readinessProbe": READINESS_PROBE,
        "securityContext": pods.READ_ONLY_SECURITY,
        "volumeMounts": [{"name": "data", "mountPath": "/data", **read_only}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": storage.name, **read_only}}
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
                "spec": pods.build_pod_spec(
                    names.STORAGE_PRIORITY,
                    [container],
                    [volume],
                    terminationGracePeriodSeconds=GRACE_SECONDS,
                    **_build_placement(catalog, cluster, tenant, runtime_state, storage),
                ),
            },
        },
    }


def _build_placement(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState,
    storage: GPUStorage,
) -> dict[str, Any]:
    """Return the affinity and tolerations of the file server.

    A ReadWriteOnce volume is attached to one node, and the file server must run on this node. If instances use the
    volume, the affinity selects their node. Otherwise, it selects the node of the storage's preparation Job.
    """
    pools = pods.storage_pools(cluster)
    anywhere: dict[str, Any] = {"nodeAffinity": pods.require_pools(pools)} if pools else {}
    more = {"tolerations": [pods.GPU_TOLERATION]} if pools else {}
    if not is_single_writer(catalog, storage):
        return {**({"affinity": anywhere} if anywhere else {}), **more}
    users = [
        instance.model.name
        for instance in tenant.of_kind(GPUInstance).values()
        if instance.model.spec.mounts(storage.name)
        and not find_start_gates(catalog, tenant, runtime_state, instance.model)
    ]
    if not users:
        return {"affinity": {**anywhere, "podAffinity": pods.storage_pod_affinity(storage.name)}, **more}
    term = {
        "labelSelector": {"matchExpressions": [{"key": names.INSTANCE, "operator": "In", "values": users}]},
        "topologyKey": pods.HOSTNAME_LABEL,
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"affinity": affinity, "tolerations": [pods.GPU_TOLERATION]}
