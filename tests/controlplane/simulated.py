"""What a declared cluster has before Allotment comes: nodes, storage classes and a Gateway, simulated from its files."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from allotment.adapters.folder_source import FolderSource
from allotment.capacity.units import GPU, node_resources
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.values import format_cpu, format_size
from allotment.manifests import names, pods
from allotment.manifests.cluster import device_plugin
from allotment.services.check.repository_check import check_repository

CPU_NODES = 2  # for preparations and file accessors, which never run beside GPUs
PROVISIONER = "simulated.allotment.dev"
ZONES = ("zone-a", "zone-b")
KUBELETS_CPU, KUBELETS_MEMORY = (
    100,
    10 * 1024**2,
)  # millicores and bytes, which Karpenter's KWOK provider takes off each type
POOLS = (
    Path(__file__).resolve().parent / "pools"
)  # what tests add to a copy of the sample: Karpenter knows types at its start


def declared(root: Path, cluster: str) -> ScopeDeclarations:
    """Return a cluster's declarations in a repository. Raises ValueError when they have errors or it isn't declared."""
    check = check_repository(FolderSource(root), datetime.date.today())
    if check.errors:
        raise ValueError("\n".join(str(problem) for problem in check.errors))
    if cluster not in check.catalog.clusters:
        raise ValueError(f"no cluster is named {cluster!r}; there are {', '.join(check.catalog.clusters)}")
    return check.catalog.clusters[cluster]


def surroundings(cluster: ScopeDeclarations) -> Iterator[dict[str, Any]]:
    """Yield the objects that a cluster's owner has made: nodes of its static pools, CPU nodes, storage classes, Gateway."""
    for pool in cluster.of_kind(NodePool).values():
        if pool.model.spec.static is not None:
            for number in range(1, pool.model.spec.static.nodes + 1):
                name = f"{pool.model.name}-{number}"
                yield gpu_node(name, pool.model)
                if pool.model.spec.sharing is not None and pool.model.spec.sharing.dra is not None:
                    yield resource_slice(name, pool.model)
    for number in range(1, CPU_NODES + 1):
        yield node(f"cpu-{number}", {}, {"cpu": "32", "memory": "128Gi"})
    yield from _storage_classes(cluster)
    yield from _gateway(cluster)


def node(name: str, labels: dict[str, str], resources: dict[str, str], *, tainted: bool = False) -> dict[str, Any]:
    """Return a node that KWOK plays. `tainted` keeps away what doesn't tolerate GPUs."""
    amounts = {"pods": "110", "ephemeral-storage": "1Ti", **resources}
    taints = [{"key": names.GPU_TAINT, "value": "true", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": taints} if tainted else {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def gpu_node(name: str, pool: NodePool) -> dict[str, Any]:
    """Return a node of a static pool, as NVIDIA's device plugin presents it; under DRA without GPUs (`resource_slice`)."""
    labels = {
        **pods.node_pool_labels(pool),
        "nvidia.com/gpu.present": "true",
        "topology.kubernetes.io/zone": ZONES[int(name[-1], 36) % 2],
        **device_plugin.node_labels(pool.spec),
    }
    return node(name, labels, _allocatable(pool.spec), tainted=True)


def _allocatable(pool: NodePoolSpec) -> dict[str, str]:
    is_dra = pool.sharing is not None and pool.sharing.dra is not None
    amounts = {} if is_dra else {resource: str(amount) for resource, amount in node_resources(pool).items()}
    return {"cpu": format_cpu(pool.node.cpu), "memory": format_size(pool.node.memory), **amounts}


def resource_slice(node_name: str, pool: NodePool) -> dict[str, Any]:
    """Return what NVIDIA's DRA driver says of a node: its GPUs, or the partitions that they are cut into."""
    sharing, gpus = pool.spec.sharing, range(pool.spec.node.gpu.count)
    assert sharing is not None and sharing.dra is not None
    device_attributes: list[tuple[str, dict[str, str]]] = [(f"gpu-{gpu}", {"type": "gpu"}) for gpu in gpus]
    if sharing.dra.devices is not None:
        device_attributes = [
            (f"gpu-{gpu}-{profile.replace('.', '-')}-{number}", {"type": "mig", "profile": profile})
            for gpu in gpus
            for profile, count in sharing.dra.devices.items()
            for number in range(count)
        ]
    devices = [
        {"name": name, "attributes": {key: {"string": value} for key, value in attributes.items()}}
        for name, attributes in device_attributes
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-gpus"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _storage_classes(cluster: ScopeDeclarations) -> Iterator[dict[str, Any]]:
    place = cluster.get_singleton(Cluster)
    assert place is not None
    policies = {storage.storage_class_name: "Retain" for storage in place.model.spec.storages}
    policies[place.model.spec.disk_storage_class_name] = "Delete"
    for name, policy in policies.items():
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": f"{policy.lower()}.{PROVISIONER}",
            "reclaimPolicy": policy,
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": True,
        }
    for snapshot_class in {storage.volume_snapshot_class_name for storage in place.model.spec.storages} - {None}:
        yield {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": snapshot_class},
            "driver": f"retain.{PROVISIONER}",
            "deletionPolicy": "Retain",
        }


def _gateway(cluster: ScopeDeclarations) -> Iterator[dict[str, Any]]:
    place = cluster.get_singleton(Cluster)
    assert place is not None
    gateway = place.model.spec.gateway
    if gateway.managed:
        return
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": gateway.namespace}}
    yield {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "envoy"},
        "spec": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
    }
    yield {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": gateway.name, "namespace": gateway.namespace},
        "spec": {
            "gatewayClassName": "envoy",
            "listeners": [
                {
                    "name": gateway.section_name,
                    "hostname": f"*.{place.model.spec.domain}",
                    "port": 443,
                    "protocol": "HTTPS",
                    "tls": {"mode": "Terminate", "certificateRefs": [{"name": "edge"}]},
                    "allowedRoutes": {"namespaces": {"from": "All"}},
                }
            ],
        },
    }


def instance_types(cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return what Karpenter's KWOK provider can buy: the instance types of a cluster's Karpenter pools, and of those in `POOLS`
    that tests declare besides. A type is sold in every zone; its GPUs are those that the machine has, whatever a pool makes of
    them, and what its pools declare is left once the kubelet has its part."""
    pools = {name: pool for pool in _karpenter_pools(cluster) for name in _instance_type_names(pool)}
    return [
        {
            "name": name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {
                "cpu": format_cpu(pool.spec.node.cpu + KUBELETS_CPU),
                "memory": format_size(pool.spec.node.memory + KUBELETS_MEMORY),
                "pods": "110",
                "ephemeral-storage": "1Ti",
                GPU: str(pool.spec.node.gpu.count),
            },
            "offerings": [
                {
                    "Price": pool.spec.node.gpu.count,
                    "Available": True,
                    "Requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                    ],
                }
                for capacity in ("on-demand", "spot")
                for zone in ZONES
            ],
        }
        for name, pool in sorted(pools.items())
    ]


def _karpenter_pools(cluster: ScopeDeclarations) -> Iterator[NodePool]:
    """Yield the pools that tests may declare, and then the cluster's own."""
    for file in sorted(POOLS.glob("*.yaml")):
        yield NodePool.model_validate(yaml.load(file.read_bytes(), yaml.CSafeLoader))
    yield from (
        declared_pool.model
        for declared_pool in cluster.of_kind(NodePool).values()
        if declared_pool.model.spec.karpenter is not None
    )


def _instance_type_names(pool: NodePool) -> list[str]:
    assert pool.spec.karpenter is not None
    return [
        value
        for requirement in pool.spec.karpenter.requirements
        if requirement.key == "node.kubernetes.io/instance-type"
        for value in requirement.values or ()
    ]
