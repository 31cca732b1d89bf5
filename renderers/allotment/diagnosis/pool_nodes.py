"""Assigns nodes to the declared pools."""

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
    """A declared pool and its nodes, sorted by name.

    `uninitialized` is the number of further nodes, which Karpenter has bought but not initialized. They are not in
    `nodes`, because they lack some labels and resources.
    """

    pool: NodePool
    nodes: list[Object]
    uninitialized: int

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self.pool.metadata.name

    @property
    def spec(self) -> NodePoolSpec:
        """The spec of the pool's declaration."""
        return self.pool.spec

    @property
    def labels(self) -> str:
        """The labels of the pool's nodes, in kubectl's syntax."""
        return ",".join(f"{key}={value}" for key, value in node_pool_labels(self.pool).items())


def pools_with_nodes(snapshot: ClusterSnapshot, cluster: ScopeDeclarations) -> Iterator[PoolNodes]:
    """Yield each pool of a cluster with its nodes. Raises NotReadable."""
    nodes = sorted(snapshot.list_objects(NODES), key=name_of)
    for pool in cluster.of_kind(NodePool).values():
        of_it = [node for node in nodes if belongs_to_pool(node, pool.model)]
        initialized_nodes = [node for node in of_it if pool.model.spec.static or INITIALIZED_LABEL in labels_of(node)]
        yield PoolNodes(pool.model, initialized_nodes, len(of_it) - len(initialized_nodes))


def labels_of(node: Object) -> dict[str, str]:
    """Return the labels of a node."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    return labels


def belongs_to_pool(node: Object, pool: NodePool) -> bool:
    """Return whether a node has the labels of a pool."""
    return node_pool_labels(pool).items() <= labels_of(node).items()


def has_gpus(node: Object) -> bool:
    """Return whether a node has GPUs, according to its label or its device plugin."""
    capacity = node.get("status", {}).get("capacity", {})
    return labels_of(node).get(GPU_PRESENT_LABEL) == "true" or any(
        key.startswith(_GPU_RESOURCE_PREFIX) and parse_quantity(value) > 0 for key, value in capacity.items()
    )


def is_ready(node: Object) -> bool:
    """Return whether a node is Ready."""
    return find_condition(node.get("status", {}).get("conditions"), "Ready").get("status") == "True"
