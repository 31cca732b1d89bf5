"""Render a tenant's namespace in a cluster and its isolation: Pod Security, quotas, limits and network policies."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from math import ceil
from typing import Any, NamedTuple

from allotment.capacity.units import node_resources, physical_gpus, unit_of_spec
from allotment.declared.addresses import is_subnet
from allotment.declared.inventory import Catalog, ScopeDeclarations, cached_by_scope
from allotment.declared.kinds.cluster import Cluster, ClusterSpec
from allotment.declared.kinds.gpu_spec import DEFAULT_EPHEMERAL_STORAGE, GPUSpec
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.stock import Stock
from allotment.declared.values import GIBI, format_size
from allotment.manifests import names
from allotment.manifests.yaml_text import Frozen
from allotment.programs import ranges
from allotment.rules.quota import QuotaLimits, limits_of

POD_SECURITY_VERSION = "v1.36"
MAX_CONTAINERS = 2  # of a pod, at the same time
QUOTA_FACTOR = 2  # validation enforces the tariff plan; the quota only stops gross excess, and leaves room for rollouts

CLUSTER_DNS = Frozen(
    namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    podSelector={"matchLabels": {"k8s-app": "kube-dns"}},
)
DNS_PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
SAME_NAMESPACE = Frozen(podSelector={})
DENY_ALL = Frozen(podSelector={}, policyTypes=["Ingress", "Egress"])
CONTAINER_LIMITS = Frozen(
    limits=[
        {
            "type": "Container",
            "default": {
                "cpu": "1",
                "memory": "1Gi",
                "ephemeral-storage": format_size(DEFAULT_EPHEMERAL_STORAGE),
            },
            "defaultRequest": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "128Mi"},
        }
    ]
)
OTHER_PRIORITIES_QUOTA = Frozen(
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
ISOLATION_ANNOTATIONS = Frozen({names.SYNC_OPTIONS: names.KEEP_OPTIONS})
NAMESPACE_ANNOTATIONS = Frozen({names.SYNC_OPTIONS: names.KEEP_OPTIONS, names.SYNC_WAVE: "-1", names.PROTECTED: "true"})


def render(catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return a tenant's namespace in a cluster and the objects that isolate it. The tenant can change none of them."""
    limits = limits_of(catalog, tenant)
    assert limits is not None
    space = names.namespace(tenant.name)
    labels = Frozen(names.labels(tenant=tenant.name))

    def metadata(name: str) -> dict[str, Any]:
        return {"name": name, "namespace": space, "labels": labels, "annotations": ISOLATION_ANNOTATIONS}

    policy = "networking.k8s.io/v1"
    return [
        _build_namespace(space, labels),
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata("backstop"),
            "spec": {"hard": quota_amounts(catalog, cluster, limits)},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata("other-priorities"),
            "spec": OTHER_PRIORITIES_QUOTA,
        },
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata("defaults"), "spec": CONTAINER_LIMITS},
        {"apiVersion": policy, "kind": "NetworkPolicy", "metadata": metadata("deny-all"), "spec": DENY_ALL},
        {
            "apiVersion": policy,
            "kind": "NetworkPolicy",
            "metadata": metadata("allow-in"),
            "spec": _build_ingress_rules(cluster),
        },
        {
            "apiVersion": policy,
            "kind": "NetworkPolicy",
            "metadata": metadata("allow-out"),
            "spec": _build_egress_rules(cluster),
        },
    ]


def _cluster_spec(cluster: ScopeDeclarations) -> ClusterSpec:
    place = cluster.get_singleton(Cluster)
    assert place is not None
    return place.model.spec


@cached_by_scope
def _build_ingress_rules(cluster: ScopeDeclarations) -> Frozen:
    namespace = _cluster_spec(cluster).gateway.effective_proxy_namespace
    gateway = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    return Frozen(podSelector={}, policyTypes=["Ingress"], ingress=[{"from": [gateway]}, {"from": [SAME_NAMESPACE]}])


@cached_by_scope
def _build_egress_rules(cluster: ScopeDeclarations) -> Frozen:
    spec = _cluster_spec(cluster)
    rules = [allow_dns(spec), allow_internet(spec), {"to": [SAME_NAMESPACE]}]
    return Frozen(podSelector={}, policyTypes=["Egress"], egress=rules)


def allow_dns(place: ClusterSpec) -> dict[str, Any]:
    """Return the egress rule for DNS queries: to the pods of kube-dns, and to the declared NodeLocal DNSCache."""
    peers: list[Any] = [CLUSTER_DNS]
    if (address := place.network.node_local_dns) is not None:
        peers.append({"ipBlock": {"cidr": f"{address}/{ip_address(address).max_prefixlen}"}})
    return {"to": peers, "ports": DNS_PORTS}


def allow_internet(place: ClusterSpec) -> dict[str, Any]:
    """Return the egress rule for the internet, without special-purpose ranges and without ranges that the cluster
    denies.
    """
    peers = []
    for block in ranges.BLOCKS:
        block_network = ip_network(block.cidr)
        denied = [cidr for cidr in sorted(place.network.denied) if is_subnet(ip_network(cidr), block_network)]
        peers.append({"ipBlock": {"cidr": block.cidr, "except": list(dict.fromkeys((*block.denied, *denied)))}})
    return {"to": peers}


def _build_namespace(space: str, labels: dict[str, str]) -> dict[str, Any]:
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


class _GpuDensity(NamedTuple):
    """The largest number of units that a cluster makes of one physical GPU, and the largest disk and files of a unit.

    `slices` has the number of units by GPU resource and GPU model. `disk` and `ephemeral_storage` are in bytes.
    """

    slices: dict[tuple[str, str], int]
    disk: int
    ephemeral_storage: int


@cached_by_scope
def _compute_gpu_density(cluster: ScopeDeclarations, platform: ScopeDeclarations) -> _GpuDensity:
    slices: dict[tuple[str, str], int] = {}
    for pool in cluster.of_kind(NodePool).values():
        gpu = pool.model.spec.node.gpu
        for resource, amount in node_resources(pool.model.spec).items():
            key = (resource, gpu.model)
            slices[key] = max(slices.get(key, 0), ceil(amount / gpu.count))
    specs = platform.of_kind(GPUSpec)
    stocked = [
        specs[stock.model.spec.gpu_spec].model.spec
        for stock in cluster.of_kind(Stock).values()
        if stock.model.spec.gpu_spec in specs
    ]
    for spec in stocked:
        unit = unit_of_spec(spec)
        key = (unit.resource, spec.gpu.model)
        slices[key] = max(slices.get(key, 0), ceil(unit.amount / physical_gpus(spec)))
    return _GpuDensity(
        slices,
        max((spec.disk for spec in stocked), default=GIBI),
        max([DEFAULT_EPHEMERAL_STORAGE, *(spec.ephemeral_storage or 0 for spec in stocked)]),
    )


def quota_amounts(catalog: Catalog, cluster: ScopeDeclarations, limits: QuotaLimits) -> Frozen:
    """Return the amounts of a tenant's quota in a cluster."""
    return _compute_quota_amounts(catalog.platform, cluster, tuple(sorted(limits.gpus.items())), limits[1:])


@cached_by_scope
def _compute_quota_amounts(
    platform: ScopeDeclarations,
    cluster: ScopeDeclarations,
    gpus: tuple[tuple[str, int], ...],
    counts: tuple[int, int, int, int],
) -> Frozen:
    """Return QUOTA_FACTOR times the tariff plan's limits, as amounts of a ResourceQuota in this cluster.

    The quota lists every GPU resource of the cluster, because Kubernetes does not limit a resource that is not listed.
    """
    density, limits = _compute_gpu_density(cluster, platform), QuotaLimits(dict(gpus), *counts)
    resources: dict[str, int] = {}
    for (resource, model), slices in density.slices.items():
        resources[resource] = resources.get(resource, 0) + QUOTA_FACTOR * limits.gpus.get(model, 0) * slices
    pods = QUOTA_FACTOR * (limits.instances + 2 * limits.storages) + 10
    claims = QUOTA_FACTOR * (limits.instances + limits.storages) + 10
    space = QUOTA_FACTOR * (limits.storage + limits.instances * density.disk)
    amounts = {
        **{f"requests.{resource}": str(amount) for resource, amount in sorted(resources.items())},
        "pods": str(pods),
        "persistentvolumeclaims": str(claims),
        "limits.ephemeral-storage": format_size(pods * MAX_CONTAINERS * density.ephemeral_storage),
        "requests.storage": format_size(space) if space else "0",
        "count/jobs.batch": str(QUOTA_FACTOR * limits.storages + 10),
        "count/objectbucketclaims.objectbucket.io": str(QUOTA_FACTOR * limits.storages + 10),
        "count/volumesnapshots.snapshot.storage.k8s.io": str(QUOTA_FACTOR * limits.snapshots + 10),
        "services": str(QUOTA_FACTOR * (limits.instances + limits.storages) + 10),
        "services.nodeports": "0",
        "services.loadbalancers": "0",
    }
    return Frozen(amounts)
