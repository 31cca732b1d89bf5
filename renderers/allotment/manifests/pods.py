"""Parts that our pods share: security, placement on node pools, resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from allotment.accounts.capacity import placeholder_cpu, unit
from allotment.declared.inventory import Folder
from allotment.declared.kinds.gpu_spec import GPUSpecSpec
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.values import cpu_text, size_text
from allotment.manifests import names
from allotment.manifests.text import Fixed, present

# Pod Security `restricted`, with root inside a user namespace: most GPU images start as root.
POD_SECURITY = Fixed(seccompProfile={"type": "RuntimeDefault"}, fsGroup=1000, fsGroupChangePolicy="OnRootMismatch")
CONTAINER_SECURITY = Fixed(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]})
READ_ONLY_SECURITY = Fixed(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]}, readOnlyRootFilesystem=True)

HOST = "kubernetes.io/hostname"
GPU_TOLERATION = Fixed(key=names.GPU_TAINT, operator="Exists", effect="NoSchedule")


def pod(priority: str, containers: list[dict[str, Any]], volumes: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a pod's spec: no service-account token, no service environment, root only inside a user namespace."""
    return present(
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


def of_storage(storage: str) -> dict[str, Any]:
    """Return the term of an affinity to the pods that prepare or show a storage."""
    return {"labelSelector": {"matchLabels": {names.STORAGE: storage}}, "topologyKey": HOST}


def beside_others_of(storage: str) -> dict[str, Any]:
    """Return the affinity of a storage's own pods to one another: what is attached to one node is used there by all.

    The first of them goes where it likes: the scheduler takes a term that a pod itself fits for met when nobody
    else does.
    """
    return {"requiredDuringSchedulingIgnoredDuringExecution": [of_storage(storage)]}


def pool_labels(pool: NodePool) -> dict[str, str]:
    """Return the labels that a pool's nodes, and no others, carry."""
    if pool.spec.static is not None:
        return dict(sorted(pool.spec.static.node_selector.items()))
    return {names.POOL: pool.metadata.name}


def node_affinity(pools: list[NodePool]) -> Fixed:
    """Return an affinity that requires a node of one of `pools`."""
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in pool_labels(pool).items()
            ]
        }
        for pool in pools
    ]
    return Fixed(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": terms})


def storage_pools(cluster: Folder) -> list[NodePool]:
    """Return the pools on whose nodes the pods of storages run, by name; empty where they run on nodes without GPUs."""
    return [pool.model for pool in cluster.of(NodePool).values() if pool.model.spec.storage_pods is not None]


def unit_resources(spec: GPUSpecSpec) -> Fixed:
    """Return a container's resources for exactly one unit; requests equal limits."""
    wanted = unit(spec)
    amounts = {"cpu": cpu_text(wanted.cpu), "memory": size_text(wanted.memory), wanted.resource: str(wanted.amount)}
    return Fixed(requests=amounts, limits=dict(amounts))


def placeholder_resources(pool: NodePoolSpec, spec: GPUSpecSpec, stocked: Callable[[], Iterable[GPUSpecSpec]]) -> Fixed:
    """Return the resources of a placeholder of one unit: a unit's own, but under DRA no device (capacity.placeholder_cpu).

    `stocked` returns the specs of the pool's stocks; it is called where they count.
    """
    if spec.sharing is None or spec.sharing.dra is None:
        return unit_resources(spec)
    amounts = {"cpu": cpu_text(placeholder_cpu(pool, spec, stocked())), "memory": size_text(spec.memory)}
    return Fixed(requests=amounts, limits=dict(amounts))


def bill_labels(declared: dict[str, str]) -> dict[str, str]:
    """Return declared labels as labels of a pod: cost allocation reads them there."""
    return {f"{names.BILL_PREFIX}{key}": value for key, value in sorted(declared.items())}
