"""Tenant → its namespace in a cluster, with all that isolates it: Pod Security, quota, limits, network policies."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_network
from math import ceil
from typing import Any, NamedTuple

from allotment.accounts.capacity import node_resources, physical_gpus, unit
from allotment.declared.addresses import lies_in
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.stock import Stock
from allotment.declared.values import GIBI, size_text
from allotment.manifests import names
from allotment.manifests.text import Fixed
from allotment.programs import ranges
from allotment.rules.quota import Limits, limits_of

POD_SECURITY_VERSION = "v1.36"
ROOM = 2  # the quota is a backstop: rollouts need room above the plan, and review enforces the plan

DNS = Fixed(
    to=[
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ],
    ports=[{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}],
)
SAME_NAMESPACE = Fixed(podSelector={})
DENY_ALL = Fixed(podSelector={}, policyTypes=["Ingress", "Egress"])
LIMITS = Fixed(
    limits=[
        {
            "type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
        }
    ]
)
OTHER_PRIORITIES = Fixed(
    hard={"pods": "0"},
    scopeSelector={
        "matchExpressions": [
            {
                "scopeName": "PriorityClass",
                "operator": "NotIn",
                "values": [names.INSTANCE_PRIORITY, names.STORAGE_PRIORITY],
            }
        ]
    },
)
ISOLATION_ANNOTATIONS = Fixed({names.SYNC_OPTIONS: names.KEEP})
NAMESPACE_ANNOTATIONS = Fixed({names.SYNC_OPTIONS: names.KEEP, names.SYNC_WAVE: "-1", names.PROTECTED: "true"})


def render(offers: Offers, cluster: Folder, tenant: Folder) -> list[dict[str, Any]]:
    """Return a tenant's namespace in a cluster and what isolates it, none of it the tenant's to change."""
    limits = limits_of(offers, tenant)
    assert limits is not None
    space = names.namespace(tenant.name)
    labels = Fixed(names.labels(tenant=tenant.name))

    def metadata(name: str) -> dict[str, Any]:
        return {"name": name, "namespace": space, "labels": labels, "annotations": ISOLATION_ANNOTATIONS}

    policy = "networking.k8s.io/v1"
    return [
        _namespace(space, labels),
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata("backstop"),
            "spec": {"hard": hard(offers, cluster, limits)},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata("other-priorities"),
            "spec": OTHER_PRIORITIES,
        },
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata("defaults"), "spec": LIMITS},
        {"apiVersion": policy, "kind": "NetworkPolicy", "metadata": metadata("deny-all"), "spec": DENY_ALL},
        {
            "apiVersion": policy,
            "kind": "NetworkPolicy",
            "metadata": metadata("allow-in"),
            "spec": _allow_in(cluster),
        },
        {
            "apiVersion": policy,
            "kind": "NetworkPolicy",
            "metadata": metadata("allow-out"),
            "spec": _allow_out(cluster),
        },
    ]


def _spec(cluster: Folder) -> ClusterSpec:
    place = cluster.one(Cluster)
    assert place is not None
    return place.model.spec


@lru_cache(maxsize=64)
def _allow_in(cluster: Folder) -> Fixed:
    namespace = _spec(cluster).gateway.namespace
    gateway = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return Fixed(podSelector={}, policyTypes=["Ingress"], ingress=[{"from": [gateway]}, {"from": [SAME_NAMESPACE]}])


@lru_cache(maxsize=64)
def _allow_out(cluster: Folder) -> Fixed:
    rules = [DNS, internet(_spec(cluster)), {"to": [SAME_NAMESPACE]}]
    return Fixed(podSelector={}, policyTypes=["Egress"], egress=rules)


def internet(place: ClusterSpec) -> dict[str, Any]:
    """Return the rule that opens the internet, less what is nobody's there and what the cluster denies."""
    peers = []
    for block in ranges.BLOCKS:
        block_network = ip_network(block.cidr)
        denied = [cidr for cidr in sorted(place.network.denied) if lies_in(ip_network(cidr), block_network)]
        peers.append({"ipBlock": {"cidr": block.cidr, "except": list(dict.fromkeys((*block.denied, *denied)))}})
    return {"to": peers}


def _namespace(space: str, labels: dict[str, str]) -> dict[str, Any]:
    security = {
        f"pod-security.kubernetes.io/{mode}{suffix}": value
        for mode in ("enforce", "audit", "warn")
        for suffix, value in (("", "restricted"), ("-version", POD_SECURITY_VERSION))
    }
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": space,
            "labels": {**labels, **security},
            "annotations": NAMESPACE_ANNOTATIONS,
        },
    }


class _Density(NamedTuple):
    """The most units of a resource that one physical GPU of a model is cut into, in a cluster; the largest unit's
    parts."""

    slices: dict[tuple[str, str], int]
    disk: int


@lru_cache(maxsize=64)
def _density(cluster: Folder, platform: Folder) -> _Density:
    slices: dict[tuple[str, str], int] = {}
    for pool in cluster.of(NodePool).values():
        gpu = pool.model.spec.node.gpu
        for resource, amount in node_resources(pool.model.spec).items():
            key = (resource, gpu.model)
            slices[key] = max(slices.get(key, 0), ceil(amount / gpu.count))
    specs = platform.of(GPUSpec)
    stocked = [
        specs[stock.model.spec.gpu_spec].model.spec
        for stock in cluster.of(Stock).values()
        if stock.model.spec.gpu_spec in specs
    ]
    for spec in stocked:
        wanted = unit(spec)
        key = (wanted.resource, spec.gpu.model)
        slices[key] = max(slices.get(key, 0), ceil(wanted.amount / physical_gpus(spec)))
    return _Density(slices, max((spec.disk for spec in stocked), default=GIBI))


def hard(offers: Offers, cluster: Folder, limits: Limits) -> Fixed:
    """Return the amounts of a tenant's quota in a cluster."""
    return _hard_of(offers.platform, cluster, tuple(sorted(limits.gpus.items())), limits[1:])


@lru_cache(maxsize=1024)
def _hard_of(
    platform: Folder,
    cluster: Folder,
    gpus: tuple[tuple[str, int], ...],
    counts: tuple[int, int, int, int],
) -> Fixed:
    """The backstop: ROOM times what the plan could hold here; every kind of GPU is named, so that none is unlimited."""
    density, limits = _density(cluster, platform), Limits(dict(gpus), *counts)
    resources: dict[str, int] = {}
    for (resource, model), slices in density.slices.items():
        resources[resource] = resources.get(resource, 0) + ROOM * limits.gpus.get(model, 0) * slices
    pods = ROOM * (limits.instances + 2 * limits.storages) + 10
    claims = ROOM * (limits.instances + limits.storages) + 10
    space = ROOM * (limits.storage + limits.instances * density.disk)
    amounts = {
        **{f"requests.{resource}": str(amount) for resource, amount in sorted(resources.items())},
        "pods": str(pods),
        "persistentvolumeclaims": str(claims),
        "requests.storage": size_text(space) if space else "0",
        "count/jobs.batch": str(ROOM * limits.storages + 10),
        "count/objectbucketclaims.objectbucket.io": str(ROOM * limits.storages + 10),
        "count/volumesnapshots.snapshot.storage.k8s.io": str(ROOM * limits.snapshots + 10),
        "services": str(ROOM * (limits.instances + limits.storages) + 10),
        "services.nodeports": "0",
        "services.loadbalancers": "0",
    }
    return Fixed(amounts)
