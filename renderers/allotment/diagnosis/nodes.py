"""Checks the nodes of the declared pools: their number, taints that keep pods away, and the CPU and memory left."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.plan import Plan
from allotment.declared.values import GIBI, MEBI, format_cpu, format_size
from allotment.diagnosis.cluster_snapshot import NODES, OTHER_PODS, ClusterSnapshot, NotReadable, Object, name_of
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, warning
from allotment.diagnosis.pool_nodes import PoolNodes, belongs_to_pool, has_gpus, is_ready, labels_of, pools_with_nodes
from allotment.manifests import names
from allotment.manifests.tenant.gpu_instance import TOPOLOGY_LABELS
from allotment.observed.quantity import parse_quantity
from allotment.problems import pluralize

# Kubernetes and Karpenter set taints with these prefixes according to the state of a node.
_KUBERNETES_TAINT_PREFIXES = ("node.kubernetes.io/", "karpenter.sh/")
_PER_NODE_OWNERS = ("DaemonSet", "Node")  # owners of the pods that run on each node; a Node owns its static pods
Capacity = tuple[int, int]  # millicores, bytes


def check_pools(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each pool: the number of its nodes, and the nodes that reject instances or admit other pods."""
    for pool in pools_with_nodes(snapshot, cluster):
        wrong = [*_check_node_count(pool), *(diagnosis for node in pool.nodes for diagnosis in _check_node(pool, node))]
        yield from wrong or [ok(f"NodePool {pool.name}", _describe_pool(pool))]


def _describe_pool(pool: PoolNodes) -> str:
    summary = f"{pluralize(len(pool.nodes), 'node')}, tainted and ready" if pool.nodes else "no node at present"
    return f"{summary}, {pool.uninitialized} more starting" if pool.uninitialized else summary


def _check_node_count(pool: PoolNodes) -> Iterator[Diagnosis]:
    subject, node_count = f"NodePool {pool.name}", len(pool.nodes)
    if pool.spec.static is not None and node_count < pool.spec.static.nodes:
        nodes = (
            f"{pluralize(node_count, 'node')} {'has' if node_count == 1 else 'have'} {pool.labels}"
            if node_count
            else f"no node has {pool.labels}"
        )
        yield error(
            subject,
            f"{nodes}, but static.nodes is {pool.spec.static.nodes}: more units are on offer than the nodes have",
            f"kubectl label node NODE {pool.labels.replace(',', ' ')}, or write static.nodes: {max(node_count, 1)} and lower its Stocks",
        )
    elif pool.spec.static is not None and node_count > pool.spec.static.nodes:
        yield warning(
            subject,
            f"{node_count} nodes have {pool.labels}, but static.nodes is {pool.spec.static.nodes}: the others are never allocated",
            f"write static.nodes: {node_count}, and raise its Stocks",
        )
    elif pool.spec.karpenter is not None and node_count + pool.uninitialized > pool.spec.karpenter.max_nodes:
        yield warning(
            subject,
            f"Karpenter has bought {node_count + pool.uninitialized} nodes, but maxNodes is {pool.spec.karpenter.max_nodes}",
            f"kubectl get nodeclaims --selector karpenter.sh/nodepool={pool.name}; Karpenter removes empty nodes by itself",
        )


def _check_node(pool: PoolNodes, node: Object) -> Iterator[Diagnosis]:
    name, taints = name_of(node), node.get("spec", {}).get("taints", ())
    subject = f"Node {name}"
    if not any(taint["key"] == names.GPU_TAINT and taint.get("effect") == "NoSchedule" for taint in taints):
        yield error(
            subject,
            f"lacks the taint {names.GPU_TAINT}:NoSchedule, so pods without GPUs use the CPU and memory of units",
            f"kubectl taint node {name} {names.GPU_TAINT}=true:NoSchedule",
        )
    for taint in taints:
        key, effect = taint["key"], taint.get("effect")
        foreign = (key != names.GPU_TAINT or effect == "NoExecute") and not key.startswith(_KUBERNETES_TAINT_PREFIXES)
        if foreign and effect in ("NoSchedule", "NoExecute"):
            yield error(
                subject,
                f"has the taint {key}:{effect}, which no unit tolerates, so nothing is scheduled there",
                f"kubectl taint node {name} {key}:{effect}-",
            )
    if not is_ready(node):
        yield error(
            subject, f"isn't Ready, but the units of pool {pool.name} include it", f"kubectl describe node {name}"
        )
    elif node.get("spec", {}).get("unschedulable") and names.CORDON not in node["metadata"].get("annotations", {}):
        yield warning(
            subject,
            f"is cordoned, but the units of pool {pool.name} include it",
            f"kubectl uncordon {name}, when it works again",
        )


def check_zones(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """If a tariff plan allows the spread of replicas over zones, yield a warning for nodes without a zone.

    A replica that must be spread over zones can't run on a node without a zone. Raises NotReadable.
    """
    if not any("Zones" in plan.model.spec.allow.spread for plan in catalog.platform.of_kind(Plan).values()):
        return
    for pool in pools_with_nodes(snapshot, cluster):
        without = [name_of(node) for node in pool.nodes if not labels_of(node).get(TOPOLOGY_LABELS["Zones"])]
        if without:
            yield warning(
                f"NodePool {pool.name}",
                f"{', '.join(without[:8])} {'lacks' if len(without) == 1 else 'lack'} the label {TOPOLOGY_LABELS['Zones']}, so no copy"
                " of an instance with spread: [Zones] is scheduled there",
                f"kubectl label node {without[0]} {TOPOLOGY_LABELS['Zones']}=ZONE, or remove Zones from the plans' allow.spread",
            )


def check_unassigned(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each node that belongs to several pools, and of each GPU node that belongs to no pool."""
    pools = [node_pool.model for node_pool in cluster.of_kind(NodePool).values()]
    for node in sorted(snapshot.list_objects(NODES), key=name_of):
        pool_names = [pool.metadata.name for pool in pools if belongs_to_pool(node, pool)]
        if len(pool_names) > 1:
            yield error(
                f"Node {name_of(node)}",
                f"has the labels of the pools {', '.join(pool_names)}, so its units are on offer twice",
                "keep the labels of one pool only",
            )
        elif not pool_names and has_gpus(node):
            yield warning(
                f"Node {name_of(node)}",
                "has GPUs, but the labels of no declared pool: its GPUs are not on offer",
                "add the labels of a pool's nodeSelector, or declare a NodePool",
            )


def check_capacity(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each pool: whether DaemonSets leave the declared CPU and memory on its nodes.

    If a node has too little, the advice has the numbers to declare. If pods can't be read, the check assumes that
    DaemonSets use nothing. With this assumption, it yields only the pools with a node that has too little, and then
    raises NotReadable.
    """
    unseen: NotReadable | None = None
    try:
        usage = _sum_daemon_requests(snapshot)
    except NotReadable as error_:
        unseen, usage = error_, {}
    for pool in pools_with_nodes(snapshot, cluster):
        rooms = {name_of(node): _remaining_capacity(node, usage.get(name_of(node), (0, 0))) for node in pool.nodes}
        if not rooms:
            continue
        declared, says = _declared_capacity(pool)
        least = min(room[0] for room in rooms.values()), min(room[1] for room in rooms.values())
        message = f"cpu {format_cpu(least[0])} and memory {_format_gib(least[1])} are left for pods"
        if least[0] < declared[0] or least[1] < declared[1]:
            at = 0 if least[0] < declared[0] else 1
            name = min(rooms, key=lambda each: rooms[each][at])
            yield error(
                f"NodePool {pool.name}",
                f"{message} on its smallest node ({name}), but {says}: the units don't fit",
                _capacity_advice(pool, least),
            )
        elif unseen is None:
            yield ok(f"NodePool {pool.name}", f"{message} on its smallest node, and {says}")
    if unseen is not None:
        raise unseen


def _declared_capacity(pool: PoolNodes) -> tuple[Capacity, str]:
    """Return the CPU and memory that a pool declares per node, for units and storage pods, and a text about them."""
    node, more = pool.spec.node, pool.spec.storage_pods
    says = f"node.cpu is {format_cpu(node.cpu)} and node.memory {format_size(node.memory)}"
    if more is None:
        return (node.cpu, node.memory), says
    says = f"{says}, plus storagePods with {format_cpu(more.cpu)} and {format_size(more.memory)}"
    return (node.cpu + more.cpu, node.memory + more.memory), says


def _capacity_advice(pool: PoolNodes, least: Capacity) -> str:
    more = pool.spec.storage_pods
    cpu, memory = least if more is None else (max(0, least[0] - more.cpu), max(0, least[1] - more.memory))
    return f"write cpu: {format_cpu(_floor_cores(cpu))}, memory: {format_size(_floor_gib(memory))}"


def _sum_daemon_requests(snapshot: ClusterSnapshot) -> dict[str, Capacity]:
    """Return, by node, the total requests of the pods that run on every node, such as those of DaemonSets."""
    usage: dict[str, Capacity] = {}
    for pod in snapshot.list_objects(OTHER_PODS):
        owners = {owner.get("kind") for owner in pod["metadata"].get("ownerReferences", ())}
        name = pod["spec"].get("nodeName")
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if name and not ended and owners & set(_PER_NODE_OWNERS):
            cpu, memory = (pod_request(pod["spec"], resource) for resource in ("cpu", "memory"))
            previous = usage.get(name, (0, 0))
            usage[name] = previous[0] + _ceil(cpu * 1000), previous[1] + _ceil(memory)
    return usage


def pod_request(spec: Object, resource: str) -> Decimal:
    """Return a pod's request of a resource, as the scheduler computes it.

    If `spec.resources` requests the resource, this request replaces the requests of the containers. Otherwise, the
    request is the sum over all containers and sidecars, or the highest sum over an init container and the sidecars
    before it, whichever is higher. In both cases, the overhead of the pod's runtime class is added.

    See `PodRequests` in Kubernetes' component-helpers, package resource.
    """

    def of(consumer: Object) -> Decimal:
        return parse_quantity(consumer.get("resources", {}).get("requests", {}).get(resource, 0))

    total, highest, sidecars = sum(map(of, spec.get("containers", ())), Decimal(0)), Decimal(0), Decimal(0)
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            sidecars += of(container)
            highest = max(highest, sidecars)
        else:
            highest = max(highest, sidecars + of(container))
    needed = max(total + sidecars, highest)
    if resource in spec.get("resources", {}).get("requests", {}):
        needed = of(spec)
    return needed + parse_quantity(spec.get("overhead", {}).get(resource, 0))


def _remaining_capacity(node: Object, usage: Capacity) -> Capacity:
    allocatable = node.get("status", {}).get("allocatable", {})
    cpu, memory = parse_quantity(allocatable.get("cpu", 0)) * 1000, parse_quantity(allocatable.get("memory", 0))
    return max(0, int(cpu) - usage[0]), max(0, int(memory) - usage[1])


def _ceil(value: Decimal) -> int:
    return int(value) + (value % 1 > 0)


def _floor_cores(millicores: int) -> int:
    """Return millicores, rounded down to whole cores unless there is less than one core."""
    return millicores // 1000 * 1000 if millicores >= 1000 else millicores


def _floor_gib(size: int) -> int:
    """Return bytes, rounded down to whole GiB, or to whole MiB if there is less than one GiB."""
    return size // GIBI * GIBI if size >= GIBI else size // MEBI * MEBI


def _format_gib(size: int) -> str:
    """Return bytes as text to a tenth of a GiB, rounded down, so that a shortage never looks like enough."""
    return format_size(size) if size % GIBI == 0 else f"{size * 10 // GIBI / 10:.1f}Gi"
