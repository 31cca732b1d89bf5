"""Build the parts that our pods share: security, placement on node pools, resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from allotment.capacity.units import placeholder_cpu, unit_of_spec
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.gpu_spec import GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.values import format_cpu, format_size
from allotment.manifests import names
from allotment.manifests.yaml_text import Frozen, without_empty

# These settings satisfy Pod Security `restricted`. Containers may run as root, as most GPU images do, because each pod
# has its own user namespace (`hostUsers: false`).
POD_SECURITY = Frozen(seccompProfile={"type": "RuntimeDefault"}, fsGroup=1000, fsGroupChangePolicy="OnRootMismatch")
CONTAINER_SECURITY = Frozen(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]})
READ_ONLY_SECURITY = Frozen(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]}, readOnlyRootFilesystem=True)

HOSTNAME_LABEL = "kubernetes.io/hostname"
GPU_TOLERATION = Frozen(key=names.GPU_TAINT, operator="Exists", effect="NoSchedule")


def build_pod_spec(
    priority: str, containers: list[dict[str, Any]], volumes: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return the spec of a pod that has its own user namespace.

    The pod gets no service-account token, and no environment variables for the Services of the namespace.
    """
    return without_empty(
        {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostUsers": False,
            "priorityClassName": priority,
            "securityContext": POD_SECURITY,
            **more,
            "containers": containers,
            "volumes": volumes,
        }
    )


def storage_affinity_term(storage: str) -> dict[str, Any]:
    """Return the affinity term that selects the pods that prepare or serve a storage."""
    return {"labelSelector": {"matchLabels": {names.STORAGE: storage}}, "topologyKey": HOSTNAME_LABEL}


def storage_pod_affinity(storage: str) -> dict[str, Any]:
    """Return the affinity that puts all pods of a storage on one node, because their volume is attached to one node.

    The first pod of a storage may run on any node, because the scheduler ignores the term for a pod that matches the
    term itself, as long as no other pod matches the term.
    """
    return {"requiredDuringSchedulingIgnoredDuringExecution": [storage_affinity_term(storage)]}


def node_pool_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that identify a pool's nodes."""
    if pool.spec.static is not None:
        return dict(sorted(pool.spec.static.node_selector.items()))
    return {names.POOL: pool.metadata.name}


def require_pools(pools: list[NodePool]) -> Frozen:
    """Return a node affinity that requires a node of one of `pools`."""
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in node_pool_labels(pool).items()
            ]
        }
        for pool in pools
    ]
    return Frozen(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": terms})


def storage_pools(cluster: ScopeDeclarations) -> list[NodePool]:
    """Return the pools for storage pods, sorted by name; empty if storage pods run on nodes without GPUs."""
    return [pool.model for pool in cluster.of_kind(NodePool).values() if pool.model.spec.storage_pods is not None]


def unit_resources(spec: GPUSpecSpec) -> Frozen:
    """Return a container's resources for exactly one unit; requests equal limits."""
    unit = unit_of_spec(spec)
    return _build_resources(unit.cpu, unit.memory, spec.ephemeral_storage, unit.resource, unit.amount)


@lru_cache
def _build_resources(
    cpu: int, memory: int, ephemeral_storage: int | None, gpu_resource: str = "", gpu_amount: int = 0
) -> Frozen:
    amounts = {"cpu": format_cpu(cpu), "memory": format_size(memory)}
    if ephemeral_storage is not None:
        amounts["ephemeral-storage"] = format_size(ephemeral_storage)
    if gpu_resource:
        amounts[gpu_resource] = str(gpu_amount)
    return Frozen(requests=amounts, limits=dict(amounts))


def placeholder_resources(
    pool: NodePoolSpec, spec: GPUSpecSpec, stocked: Callable[[], Iterable[GPUSpecSpec]]
) -> Frozen:
    """Return the resources of a placeholder: one unit, or, under DRA, all but the GPU, and less CPU (`placeholder_cpu`).

    `stocked` returns the specs of the pool's stocks. It is called only under DRA.
    """
    if spec.sharing is None or spec.sharing.dra is None:
        return unit_resources(spec)
    return _build_resources(placeholder_cpu(pool, spec, stocked()), spec.memory, spec.ephemeral_storage)


def build_bill_labels(declared: dict[str, str]) -> dict[str, str]:
    """Return the declared labels with our prefix. Cost-allocation tools read these labels of Kubernetes objects."""
    return {f"{names.BILL_PREFIX}{key}": value for key, value in sorted(declared.items())}
