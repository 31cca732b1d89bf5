"""Which nodes are of which declared pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from allotment.declared.inventory import Folder
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.diagnosis.looked import NODES, Looked, Object, condition, name_of
from allotment.manifests.pods import pool_labels
from allotment.observed.quantity import amount

INITIALIZED = "karpenter.sh/initialized"
PRESENT = "nvidia.com/gpu.present"
_GPUS = "nvidia.com/"


class PoolNodes(NamedTuple):
    """A declared pool with its nodes, by name. `coming` counts those that Karpenter has bought and not initialised yet, whose
    labels and resources still come."""

    pool: NodePool
    nodes: list[Object]
    coming: int

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
        return ",".join(f"{key}={value}" for key, value in pool_labels(self.pool).items())


def pools_with_nodes(looked: Looked, cluster: Folder) -> Iterator[PoolNodes]:
    """Yield each pool of a cluster with its nodes. Raises Unseen."""
    nodes = sorted(looked.all(NODES), key=name_of)
    for pool in cluster.of(NodePool).values():
        of_it = [node for node in nodes if is_of(node, pool.model)]
        initialized_nodes = [node for node in of_it if pool.model.spec.static or INITIALIZED in labels_of(node)]
        yield PoolNodes(pool.model, initialized_nodes, len(of_it) - len(initialized_nodes))


def labels_of(node: Object) -> dict[str, str]:
    """Return a node's labels."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    return labels


def is_of(node: Object, pool: NodePool) -> bool:
    """Return whether a node carries the labels of a pool."""
    return pool_labels(pool).items() <= labels_of(node).items()


def has_gpus(node: Object) -> bool:
    """Return whether a node has GPUs, by its label or by what its device plugin says."""
    capacity = node.get("status", {}).get("capacity", {})
    return labels_of(node).get(PRESENT) == "true" or any(
        key.startswith(_GPUS) and amount(value) > 0 for key, value in capacity.items()
    )


def is_ready(node: Object) -> bool:
    """Return whether a node's kubelet is there."""
    return condition(node.get("status", {}).get("conditions"), "Ready").get("status") == "True"
