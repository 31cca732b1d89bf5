"""Which nodes are of which declared pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.diagnosis.cluster_snapshot import NODES, ClusterSnapshot, Object, find_condition, name_of
from allotment.manifests.pods import node_pool_labels
from allotment.observed.quantity import parse_quantity

INITIALIZED_LABEL = "karpenter.sh/initialized"
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
_GPU_RESOURCE_PREFIX = "nvidia.com/"


class PoolNodes(NamedTuple):
    """A declared pool with its nodes, by name. `uninitialized` counts those that Karpenter has bought and not initialised yet, whose
    labels and resources still come."""

    pool: NodePool
    nodes: list[Object]
    uninitialized: int

    @property
    def name(self) -> str:
        """The pool's own name."""
        return self.pool.metadata.name

    @property
    def spec(self) -> NodePoolSpec:
        """What is declared of it."""
        return self.pool.spec

    @property
    def labels(self) -> str:
        """The labels that its nodes carry, as kubectl takes them."""
        return ",".join(f"{key}={value}" for key, value in node_pool_labels(self.pool).items())


def pools_with_nodes(looked: ClusterSnapshot, cluster: ScopeDeclarations) -> Iterator[PoolNodes]:
    """Yield each pool of a cluster with its nodes. Raises NotReadable."""
    nodes = sorted(looked.list_objects(NODES), key=name_of)
    for pool in cluster.of_kind(NodePool).values():
        of_it = [node for node in nodes if belongs_to_pool(node, pool.model)]
        initialized_nodes = [node for node in of_it if pool.model.spec.static or INITIALIZED_LABEL in labels_of(node)]
        yield PoolNodes(pool.model, initialized_nodes, len(of_it) - len(initialized_nodes))


def labels_of(node: Object) -> dict[str, str]:
    """Return a node's labels."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    return labels


def belongs_to_pool(node: Object, pool: NodePool) -> bool:
    """Return whether a node carries the labels of a pool."""
    return node_pool_labels(pool).items() <= labels_of(node).items()


def has_gpus(node: Object) -> bool:
    """Return whether a node has GPUs, by its label or by what its device plugin says."""
    capacity = node.get("status", {}).get("capacity", {})
    return labels_of(node).get(GPU_PRESENT_LABEL) == "true" or any(
        key.startswith(_GPU_RESOURCE_PREFIX) and parse_quantity(value) > 0 for key, value in capacity.items()
    )


def is_ready(node: Object) -> bool:
    """Return whether a node's kubelet is there."""
    return find_condition(node.get("status", {}).get("conditions"), "Ready").get("status") == "True"
