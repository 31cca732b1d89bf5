"""Render a GPUInstance as a Deployment, with a Service, HTTPRoutes and SecurityPolicies for its ports."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.capacity.units import holds_units, pools_for, stocks_of_spec
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations, cached_by_scope
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.container import Container, InstanceEnvVar, Port, Probe
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.values import format_size
from allotment.manifests import names, pods
from allotment.manifests.tenant import exposure
from allotment.manifests.yaml_text import Frozen, without_empty
from allotment.preparation.runtime_state import RuntimeState
from allotment.preparation.sources import find_cluster_storage
from allotment.preparation.start_gates import (
    app_version,
    count_allocated_units,
    count_running_replicas,
    find_start_gates,
    find_unit_shortage,
)

PULL_SECONDS = 1800  # time to pull an image of tens of GB, before Kubernetes reports the rollout as failed
PROBE_PERIOD = 10
CONTAINER_NAME = "main"
TOPOLOGY_LABELS = {"Zones": "topology.kubernetes.io/zone", "Nodes": pods.HOSTNAME_LABEL}
BUCKET_KEYS = {
    "secretKeyRef": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "configMapKeyRef": ("BUCKET_NAME", "BUCKET_HOST", "BUCKET_PORT", "BUCKET_REGION"),
}


def render(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    runtime_state: RuntimeState,
    declared: DeclarationFile[GPUInstance],
) -> list[dict[str, Any]]:
    """Return an instance's objects, the Deployment first."""
    instance, place = declared.model, cluster.get_singleton(Cluster)
    assert place is not None
    container = effective_container(catalog, instance)
    space = names.namespace(tenant.name)
    selector = {names.INSTANCE: instance.name}
    labels = Frozen(names.labels(tenant=tenant.name, instance=instance.name))
    objects = [
        _build_deployment(
            catalog, cluster, tenant, runtime_state=runtime_state, declared=declared, container=container, labels=labels
        )
    ]
    if container.ports:
        metadata = {"name": instance.name, "namespace": space, "labels": labels}
        objects.append(
            exposure.build_service(
                metadata, selector, [(port.name, port.container_port) for port in sorted_ports(container)]
            )
        )
    for port in sorted_ports(container):
        if port.exposure == "Namespace":
            continue
        host = names.instance_host(instance.name, port.name, tenant.name, place.model.spec.domain)
        name = instance.name if port.name == "http" else f"{instance.name}--{port.name}"
        metadata = {
            "name": name,
            "namespace": space,
            "labels": labels,
            "annotations": {names.EXTERNAL_LINK: f"https://{host}{port.base_path}"},
        }
        objects.append(
            exposure.build_http_route(
                metadata, place.model.spec, host, instance.name, port.container_port, port.exposure
            )
        )
        policy = {"name": name, "namespace": space, "labels": labels}
        objects.append(
            exposure.build_security_policy(
                policy, place.model.spec, host, port.exposure, tenant, exposure.INSTANCE_ROLES
            )
        )
        if instance.spec.replicas > 1:
            objects.append(exposure.build_affinity_policy(policy))
    return objects


def effective_container(catalog: Catalog, instance: GPUInstance) -> Container:
    """Return the declared container, or the container of the app version with the instance's args and variables."""
    version, own = app_version(catalog, instance), instance.spec.container
    if version is None:
        assert own is not None
        return own
    if own is None:
        return version.container
    env = {variable.name: variable for variable in version.container.env} | {
        variable.name: variable for variable in own.env
    }
    return version.container.model_copy(update={"args": own.args or version.container.args, "env": list(env.values())})


def sorted_ports(container: Container) -> list[Port]:
    """Return a container's ports, sorted by name."""
    return sorted(container.ports, key=lambda port: port.name)


def _build_deployment(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    *,
    runtime_state: RuntimeState,
    declared: DeclarationFile[GPUInstance],
    container: Container,
    labels: Frozen,
) -> dict[str, Any]:
    instance = declared.model
    start = container.probe.start_timeout if container.probe else 0
    metadata: dict[str, Any] = {
        "name": instance.name,
        "namespace": names.namespace(tenant.name),
        "labels": {**labels, names.GPU_SPEC: instance.spec.gpu_spec},
        "annotations": {
            names.BLOB: declared.blob,
            **_build_ssh_annotation(cluster, tenant, instance),
            **_build_unit_annotations(catalog, tenant, runtime_state, instance),
            **without_empty({names.RELOAD_SECRETS: list_reload_secrets(instance)}),
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": count_running_replicas(catalog, tenant, runtime_state, instance),
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": start + PULL_SECONDS,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {names.INSTANCE: instance.name}},
            "template": _build_pod_template(catalog, cluster, tenant, instance, container, labels),
        },
    }


def _build_ssh_annotation(
    cluster: ScopeDeclarations, tenant: ScopeDeclarations, instance: GPUInstance
) -> dict[str, str]:
    place = cluster.get_singleton(Cluster)
    ssh = place.model.spec.ssh if place is not None else None
    if ssh is None or "SSH" not in instance.spec.access:
        return {}
    return {names.SSH_COMMAND: names.ssh_command(instance.name, tenant.name, ssh.host, ssh.port)}


def list_reload_secrets(instance: GPUInstance) -> str:
    """Return the names of the Secrets that restart the instance when they change, separated by commas; empty for none."""
    spec = instance.spec
    if spec.on_secret_change != "Restart" or spec.container is None:  # noqa: S105  # not a password
        return ""
    sources = {variable.value_from.secret_key_ref.name for variable in spec.container.env if variable.value_from}
    return ",".join(map(names.secret_name, sorted(sources)))


def _build_unit_annotations(
    catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState, instance: GPUInstance
) -> dict[str, str]:
    """Return the annotations with the instance's allocated units, and with the conditions that it waits for.

    People and the next publish read these annotations.
    """
    waiting = find_start_gates(catalog, tenant, runtime_state, instance) or find_unit_shortage(runtime_state, instance)
    return without_empty(
        {
            names.UNITS: str(count_allocated_units(runtime_state, instance)) if holds_units(tenant, instance) else None,
            names.WAITS_FOR: "; ".join(wait.message for wait in waiting),
            names.WAITS_REASON: waiting[0].reason if waiting else None,
        }
    )


def _build_pod_template(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    instance: GPUInstance,
    container: Container,
    labels: Frozen,
) -> dict[str, Any]:
    spec = catalog.platform.of_kind(GPUSpec)[instance.spec.gpu_spec].model.spec
    place = cluster.get_singleton(Cluster)
    assert place is not None
    affinity: dict[str, Any] = {
        "nodeAffinity": _build_pool_affinity(catalog, cluster, instance.spec.gpu_spec, tenant.name)
    }
    if spec.tenancy == "Single":
        affinity["podAntiAffinity"] = _build_tenant_anti_affinity(tenant.name)
    restarts = instance.spec.restarts
    metadata: dict[str, Any] = {"labels": {**labels, **pods.build_bill_labels(instance.metadata.labels)}}
    if restarts:
        metadata["annotations"] = {names.RESTARTS: str(restarts)}
    return {
        "metadata": metadata,
        "spec": pods.build_pod_spec(
            names.INSTANCE_PRIORITY,
            [_build_container(spec, instance, container, _build_bucket_env(catalog, tenant, instance))],
            _build_volumes(spec, place.model.spec, instance, container),
            affinity=affinity,
            tolerations=[pods.GPU_TOLERATION],
            topologySpreadConstraints=_build_spread_constraints(instance),
        ),
    }


def _build_spread_constraints(instance: GPUInstance) -> list[dict[str, Any]]:
    """Return the constraints that spread the replicas over the declared topology.

    The constraints are required, not preferred, because a replica preempts a placeholder, and the scheduler ignores
    preferences when it preempts. `nodeTaintsPolicy: Honor` excludes nodes with taints that the pods do not tolerate.
    """
    return [
        {
            "labelSelector": {"matchLabels": {names.INSTANCE: instance.name}},
            "maxSkew": 1,
            "nodeTaintsPolicy": "Honor",
            "topologyKey": TOPOLOGY_LABELS[over],
            "whenUnsatisfiable": "DoNotSchedule",
        }
        for over in sorted(set(instance.spec.spread), reverse=True)
    ]


def _build_pool_affinity(catalog: Catalog, cluster: ScopeDeclarations, gpu_spec: str, tenant: str) -> Frozen:
    reserved = tenant in stocks_of_spec(cluster, gpu_spec).reserved
    return _build_pool_affinity_for(cluster, gpu_spec, tenant if reserved else "")


@cached_by_scope
def _build_pool_affinity_for(cluster: ScopeDeclarations, gpu_spec: str, owner: str) -> Frozen:
    return pods.require_pools([pool.model for pool in pools_for(cluster, gpu_spec, owner)])


def _build_tenant_anti_affinity(tenant: str) -> dict[str, Any]:
    """Return the anti-affinity that excludes nodes with another tenant's pods.

    Pods without a tenant, such as those of DaemonSets, do not exclude a node.
    """
    expressions = [
        {"key": names.TENANT, "operator": "Exists"},
        {"key": names.TENANT, "operator": "NotIn", "values": [tenant]},
    ]
    term = {
        "labelSelector": {"matchExpressions": expressions},
        "namespaceSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _build_bucket_env(catalog: Catalog, tenant: ScopeDeclarations, instance: GPUInstance) -> list[dict[str, Any]]:
    """Return the environment variables for an instance's buckets.

    Most values come from the Secret and the ConfigMap that the object store creates for each bucket. If the object
    store has a declared endpoint, AWS_ENDPOINT_URL contains it.
    """
    variables: list[dict[str, Any]] = []
    for use in sorted(instance.spec.buckets, key=lambda use: use.name):
        for kind, keys in BUCKET_KEYS.items():
            for key in keys:
                source = {kind: {"name": use.name, "key": key}}
                variables.append({"name": f"{use.env_prefix}{key}", "valueFrom": source})
        entry = find_cluster_storage(catalog, tenant.of_kind(GPUStorage)[use.name].model)
        if entry is not None and entry.object_store is not None and entry.object_store.endpoint is not None:
            variables.append({"name": f"{use.env_prefix}AWS_ENDPOINT_URL", "value": entry.object_store.endpoint})
    return variables


def _build_env(container: Container, buckets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a container's environment. A declared variable replaces the variable of a bucket with the same name."""
    declared = [_build_variable(variable) for variable in sorted_env(container)]
    named = {variable["name"] for variable in declared}
    return declared + [variable for variable in buckets if variable["name"] not in named]


def _build_variable(variable: InstanceEnvVar) -> dict[str, Any]:
    if variable.value_from is not None:
        source = variable.value_from.secret_key_ref
        return {
            "name": variable.name,
            "valueFrom": {"secretKeyRef": {"name": names.secret_name(source.name), "key": source.key}},
        }
    # The kubelet expands `$(NAME)` in values; `$$` escapes `$`.
    return {"name": variable.name, "value": str(variable.value).replace("$", "$$")}


def _build_container(
    spec: GPUSpecSpec, instance: GPUInstance, container: Container, buckets: list[dict[str, Any]]
) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": "/scratch"}]
    if _has_own_shm(spec, container):
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108  # a path in the pod
    for mount in sorted(instance.spec.storages, key=lambda mount: mount.mount_path):
        entry = {"name": f"s-{mount.name}", "mountPath": mount.mount_path, "subPath": mount.sub_path}
        mounts.append(without_empty({**entry, "readOnly": mount.read_only or None}))
    probe = container.probe
    return without_empty(
        {
            "name": CONTAINER_NAME,
            "image": container.image,
            "command": list(container.command),
            "args": list(container.args),
            "env": _build_env(container, buckets),
            "ports": [
                {"name": port.name, "containerPort": port.container_port, "protocol": "TCP"}
                for port in sorted_ports(container)
            ],
            "resources": pods.unit_resources(spec),
            "startupProbe": _build_startup_probe(probe) if probe else None,
            "readinessProbe": _build_readiness_probe(probe) if probe else None,
            "securityContext": pods.CONTAINER_SECURITY,
            "volumeMounts": mounts,
        }
    )


def _has_own_shm(spec: GPUSpecSpec, container: Container) -> bool:
    """Return whether a container gets its own /dev/shm.

    With MPS, the container gets none. The device plugin mounts the MPS daemon's /dev/shm into the container, because
    the daemon and its clients communicate through it. The kubelet would mount a volume of the pod over this mount.
    """
    return container.shm_size is not None and (spec.sharing is None or spec.sharing.mps is None)


def sorted_env(container: Container) -> list[InstanceEnvVar]:
    """Return a container's environment variables, sorted by name."""
    return sorted(container.env, key=lambda variable: variable.name)


def _build_startup_probe(probe: Probe) -> Frozen:
    return _build_probe(probe, -(-probe.start_timeout // PROBE_PERIOD))


def _build_readiness_probe(probe: Probe) -> Frozen:
    return _build_probe(probe, 3)


def _build_probe(probe: Probe, attempts: int) -> Frozen:
    if probe.http_get is not None:
        return _build_probe_of("httpGet", probe.http_get.path, probe.http_get.port, attempts)
    assert probe.tcp_socket is not None
    return _build_probe_of("tcpSocket", "", probe.tcp_socket.port, attempts)


@lru_cache
def _build_probe_of(kind: str, path: str, port: str, attempts: int) -> Frozen:
    check = {"path": path, "port": port, "scheme": "HTTP"} if kind == "httpGet" else {"port": port}
    return Frozen({kind: check, "periodSeconds": PROBE_PERIOD, "timeoutSeconds": 5, "failureThreshold": attempts})


@lru_cache
def _build_scratch_volume(storage_class: str, size: str) -> Frozen:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": size}},
    }
    return Frozen(volumeClaimTemplate={"spec": claim})


def _build_volumes(
    spec: GPUSpecSpec, place: ClusterSpec, instance: GPUInstance, container: Container
) -> list[dict[str, Any]]:
    scratch = _build_scratch_volume(place.disk_storage_class_name, format_size(spec.disk))
    volumes: list[dict[str, Any]] = [{"name": "scratch", "ephemeral": scratch}]
    if container.shm_size is not None and _has_own_shm(spec, container):
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": format_size(container.shm_size)}})
    volumes += [
        {"name": f"s-{name}", "persistentVolumeClaim": {"claimName": name}}
        for name in sorted({mount.name for mount in instance.spec.storages})
    ]
    return volumes
