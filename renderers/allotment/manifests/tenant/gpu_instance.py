"""GPUInstance → Deployment, and for its ports Service, HTTPRoute and SecurityPolicy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from allotment.accounts.capacity import holds, pools_for, stocks_of
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.container import Container, Port, Probe
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.values import size_text
from allotment.manifests import names, pods
from allotment.manifests.tenant import exposure
from allotment.manifests.text import Fixed, present
from allotment.readiness.instances import app_version, replicas_of, short_of, units_of, waits_for
from allotment.readiness.sources import placed
from allotment.readiness.standing import Standing

PULL_SECONDS = 1800  # how long an image of tens of GB may take, before the rollout counts as failed
PROBE_PERIOD = 10
CONTAINER = "main"
TOPOLOGIES = {"Zones": "topology.kubernetes.io/zone", "Nodes": pods.HOST}
BUCKET_KEYS = {
    "secretKeyRef": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "configMapKeyRef": ("BUCKET_NAME", "BUCKET_HOST", "BUCKET_PORT", "BUCKET_REGION"),
}


def render(
    offers: Offers, cluster: Folder, tenant: Folder, standing: Standing, declared: Declared[GPUInstance]
) -> list[dict[str, Any]]:
    """Return an instance's objects, the Deployment first."""
    instance, place = declared.model, cluster.one(Cluster)
    assert place is not None
    container = effective_container(offers, instance)
    space = names.namespace(tenant.name)
    selector = {names.INSTANCE: instance.name}
    labels = Fixed(names.labels(tenant=tenant.name, instance=instance.name))
    objects = [
        _deployment(offers, cluster, tenant, standing=standing, declared=declared, container=container, labels=labels)
    ]
    if container.ports:
        metadata = {"name": instance.name, "namespace": space, "labels": labels}
        objects.append(
            exposure.service(metadata, selector, [(port.name, port.container_port) for port in sorted_ports(container)])
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
        objects.append(exposure.http_route(metadata, place.model.spec, host, instance.name, port.container_port))
        policy = {"name": name, "namespace": space, "labels": labels}
        objects.append(
            exposure.security_policy(policy, place.model.spec, host, port.exposure, tenant, exposure.INSTANCE_ROLES)
        )
    return objects


def effective_container(offers: Offers, instance: GPUInstance) -> Container:
    """Return the container that runs: the app version's with the instance's args and environment, or the instance's
    own."""
    version, own = app_version(offers, instance), instance.spec.container
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
    """Return a container's ports by name."""
    return sorted(container.ports, key=lambda port: port.name)


def _deployment(
    offers: Offers,
    cluster: Folder,
    tenant: Folder,
    *,
    standing: Standing,
    declared: Declared[GPUInstance],
    container: Container,
    labels: Fixed,
) -> dict[str, Any]:
    instance = declared.model
    start = container.probe.start_timeout if container.probe else 0
    metadata: dict[str, Any] = {
        "name": instance.name,
        "namespace": names.namespace(tenant.name),
        "labels": {**labels, names.GPU_SPEC: instance.spec.gpu_spec},
        "annotations": {names.BLOB: declared.blob, **_account(offers, tenant, standing, instance)},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": replicas_of(offers, tenant, standing, instance),
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": start + PULL_SECONDS,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {names.INSTANCE: instance.name}},
            "template": _pod_template(offers, cluster, tenant, instance, container, labels),
        },
    }


def _account(offers: Offers, tenant: Folder, standing: Standing, instance: GPUInstance) -> dict[str, str]:
    """Return the annotations that say what the instance holds and what it waits for, for people and for the next
    publish."""
    waiting = waits_for(offers, tenant, standing, instance) or short_of(standing, instance)
    return present(
        {
            names.UNITS: str(units_of(standing, instance)) if holds(tenant, instance) else None,
            names.WAITS_FOR: "; ".join(wait.words for wait in waiting),
            names.WAITS_REASON: waiting[0].reason if waiting else None,
        }
    )


def _pod_template(
    offers: Offers, cluster: Folder, tenant: Folder, instance: GPUInstance, container: Container, labels: Fixed
) -> dict[str, Any]:
    spec = offers.platform.of(GPUSpec)[instance.spec.gpu_spec].model.spec
    place = cluster.one(Cluster)
    assert place is not None
    affinity: dict[str, Any] = {"nodeAffinity": _pool_affinity(offers, cluster, instance.spec.gpu_spec, tenant.name)}
    if spec.tenancy == "Single":
        affinity["podAntiAffinity"] = _no_other_tenant(tenant.name)
    return {
        "metadata": {"labels": {**labels, **pods.bill_labels(instance.metadata.labels)}},
        "spec": pods.pod(
            names.INSTANCE_PRIORITY,
            [_container(spec, instance, container, _bucket_env(offers, tenant, instance))],
            _volumes(spec, place.model.spec, instance, container),
            affinity=affinity,
            tolerations=[pods.GPU_TOLERATION],
            topologySpreadConstraints=_spread(instance),
        ),
    }


def _spread(instance: GPUInstance) -> list[dict[str, Any]]:
    """Spread the copies over what is declared. It is required, since a copy takes the place of a placeholder, and the
    scheduler heeds no preference where it has to push one aside. Nodes that take no pods count for nothing."""
    return [
        {
            "labelSelector": {"matchLabels": {names.INSTANCE: instance.name}},
            "maxSkew": 1,
            "nodeTaintsPolicy": "Honor",
            "topologyKey": TOPOLOGIES[over],
            "whenUnsatisfiable": "DoNotSchedule",
        }
        for over in sorted(set(instance.spec.spread), reverse=True)
    ]


def _pool_affinity(offers: Offers, cluster: Folder, gpu_spec: str, tenant: str) -> Fixed:
    reserved = tenant in stocks_of(cluster, gpu_spec).reserved
    return _pool_affinity_of(cluster, gpu_spec, tenant if reserved else "")


@lru_cache(maxsize=4096)
def _pool_affinity_of(cluster: Folder, gpu_spec: str, owner: str) -> Fixed:
    return pods.node_affinity([pool.model for pool in pools_for(cluster, gpu_spec, owner)])


def _no_other_tenant(tenant: str) -> dict[str, Any]:
    """A node that holds a pod of another tenant is out; pods without a tenant, such as DaemonSets', don't count."""
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


def _bucket_env(offers: Offers, tenant: Folder, instance: GPUInstance) -> list[dict[str, Any]]:
    """Return the variables of an instance's buckets, from the Secret and the ConfigMap that the object store makes
    for each."""
    variables: list[dict[str, Any]] = []
    for use in sorted(instance.spec.buckets, key=lambda use: use.name):
        for kind, keys in BUCKET_KEYS.items():
            for key in keys:
                source = {kind: {"name": use.name, "key": key}}
                variables.append({"name": f"{use.env_prefix}{key}", "valueFrom": source})
        entry = placed(offers, tenant.of(GPUStorage)[use.name].model)
        if entry is not None and entry.object_store is not None and entry.object_store.endpoint is not None:
            variables.append({"name": f"{use.env_prefix}AWS_ENDPOINT_URL", "value": entry.object_store.endpoint})
    return variables


def _env(container: Container, buckets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a container's environment: what it declares, over what its buckets give."""
    # `$(NAME)` in a value would be expanded by the kubelet; `$$` is its escape for `$`.
    declared = [
        {"name": variable.name, "value": variable.value.replace("$", "$$")} for variable in sorted_env(container)
    ]
    named = {variable["name"] for variable in declared}
    return declared + [variable for variable in buckets if variable["name"] not in named]


def _container(
    spec: GPUSpecSpec, instance: GPUInstance, container: Container, buckets: list[dict[str, Any]]
) -> dict[str, Any]:
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": "/scratch"}]
    if _has_own_shm(spec, container):
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108  # a pod's
    for mount in sorted(instance.spec.storages, key=lambda mount: mount.mount_path):
        entry = {"name": f"s-{mount.name}", "mountPath": mount.mount_path, "subPath": mount.sub_path}
        mounts.append(present({**entry, "readOnly": mount.read_only or None}))
    probe = container.probe
    return present(
        {
            "name": CONTAINER,
            "image": container.image,
            "command": list(container.command),
            "args": list(container.args),
            "env": _env(container, buckets),
            "ports": [
                {"name": port.name, "containerPort": port.container_port, "protocol": "TCP"}
                for port in sorted_ports(container)
            ],
            "resources": pods.unit_resources(spec),
            "startupProbe": _startup_probe(probe) if probe else None,
            "readinessProbe": _readiness_probe(probe) if probe else None,
            "securityContext": pods.CONTAINER_SECURITY,
            "volumeMounts": mounts,
        }
    )


def _has_own_shm(spec: GPUSpecSpec, container: Container) -> bool:
    """Return whether a container gets a /dev/shm of its own. Under MPS it doesn't: the device plugin mounts the MPS daemon's,
    by which both speak, and the kubelet mounts a pod's own volumes over that."""
    return container.shm_size is not None and (spec.sharing is None or spec.sharing.mps is None)


def sorted_env(container: Container) -> list[Any]:
    """Return a container's environment by name."""
    return sorted(container.env, key=lambda variable: variable.name)


def _check(probe: Probe) -> dict[str, Any]:
    if probe.http_get is not None:
        return {"httpGet": {"path": probe.http_get.path, "port": probe.http_get.port, "scheme": "HTTP"}}
    assert probe.tcp_socket is not None
    return {"tcpSocket": {"port": probe.tcp_socket.port}}


def _startup_probe(probe: Probe) -> Fixed:
    attempts = -(-probe.start_timeout // PROBE_PERIOD)
    return Fixed(**_check(probe), periodSeconds=PROBE_PERIOD, timeoutSeconds=5, failureThreshold=attempts)


def _readiness_probe(probe: Probe) -> Fixed:
    return Fixed(**_check(probe), periodSeconds=PROBE_PERIOD, timeoutSeconds=5, failureThreshold=3)


def _own_disk(spec: GPUSpecSpec, place: ClusterSpec) -> Fixed:
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": place.disk_storage_class_name,
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": size_text(spec.disk)}},
    }
    return Fixed(volumeClaimTemplate={"spec": claim})


def _volumes(
    spec: GPUSpecSpec, place: ClusterSpec, instance: GPUInstance, container: Container
) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "scratch", "ephemeral": _own_disk(spec, place)}]
    if container.shm_size is not None and _has_own_shm(spec, container):
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size_text(container.shm_size)}})
    volumes += [
        {"name": f"s-{name}", "persistentVolumeClaim": {"claimName": name}}
        for name in sorted({mount.name for mount in instance.spec.storages})
    ]
    return volumes
