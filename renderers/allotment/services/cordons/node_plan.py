"""Decides which nodes of a cluster to make unschedulable, and which to return to service."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.adapters.cluster.nodes import Node
from allotment.capacity.cordons import list_active_cordons
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.cordon import Cordon
from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests.pods import node_pool_labels


class NodeChange(NamedTuple):
    """A change of a node. Without `cordons`, the node returns to service, unless somebody else cordoned it before."""

    node: Node
    cordons: tuple[str, ...]
    is_unschedulable: bool
    is_cordoned_before: bool


class NodePlan(NamedTuple):
    """The changes of nodes.

    - `cordoned_nodes` are the nodes that are, or become, cordoned.
    - `drained_nodes` are the cordoned nodes that instances have to leave.
    - `troubles` are the reasons why a declared cordon is not in force, or why a cordon stays.
    """

    changes: list[NodeChange]
    cordoned_nodes: frozenset[str]
    drained_nodes: frozenset[str]
    troubles: list[str]


def plan_nodes(cluster: ScopeDeclarations, nodes: Iterable[Node], day: datetime.date) -> NodePlan:
    """Return the changes that the cordons of a cluster need on a day.

    At most `maxCordonedNodes` nodes are cordoned, those that are cordoned already before others. While a Cordon, a
    NodePool or the Cluster is invalid, no node returns to service.
    """
    nodes_by_name = {node.name: node for node in nodes}
    troubles: list[str] = []
    cordons_by_node: dict[str, list[Cordon]] = {}
    for cordon in list_active_cordons(cluster, day):
        names = _find_nodes(cluster, cordon.model, nodes_by_name)
        if not names:
            troubles.append(_describe_absence(cordon.model))
        for name in names:
            cordons_by_node.setdefault(name, []).append(cordon.model)
    returning_nodes = [node for node in nodes_by_name.values() if node.cordons and node.name not in cordons_by_node]
    faults = sorted(f"{kind} {name}" for kind, name in cluster.invalid)
    limit = max(0, _read_limit(cluster) - (len(returning_nodes) if faults else 0))
    order = sorted(cordons_by_node, key=lambda name: (not nodes_by_name[name].cordons, name))
    if waiting_nodes := [name for name in order[limit:] if not nodes_by_name[name].cordons]:
        troubles.append(
            f"{', '.join(waiting_nodes)}: not cordoned, because the cluster allows {_read_limit(cluster)} cordoned nodes at a time"
        )
    cordoned_nodes = frozenset(order[:limit])
    changes = [
        change for name in order[:limit] if (change := _cordon(nodes_by_name[name], cordons_by_node[name])) is not None
    ]
    if faults:
        troubles += [f"{node.name} stays cordoned, because {faults[0]} is invalid" for node in returning_nodes]
    else:
        changes += [
            NodeChange(node, (), node.is_unschedulable and node.is_cordoned_before, False) for node in returning_nodes
        ]
    drained_nodes = frozenset(
        name for name in cordoned_nodes if any(cordon.spec.drain == "Now" for cordon in cordons_by_node[name])
    )
    return NodePlan(changes, cordoned_nodes, drained_nodes, troubles)


def _find_nodes(cluster: ScopeDeclarations, cordon: Cordon, nodes: Mapping[str, Node]) -> list[str]:
    """Return the names of a cordon's nodes: the named node, or all nodes of the pool."""
    pool = cluster.of_kind(NodePool).get(cordon.spec.node_pool)
    if pool is None:
        return []
    labels = node_pool_labels(pool.model).items()
    candidates = nodes if cordon.spec.node is None else nodes.keys() & {cordon.spec.node}
    return sorted(name for name in candidates if labels <= nodes[name].labels.items())


def _describe_absence(cordon: Cordon) -> str:
    if cordon.spec.node is None:
        return f"Cordon {cordon.name}: node pool {cordon.spec.node_pool} has no nodes"
    return f"Cordon {cordon.name}: node pool {cordon.spec.node_pool} has no node {cordon.spec.node}"


def _read_limit(cluster: ScopeDeclarations) -> int:
    """Return the number of nodes that may be cordoned at a time; 0 if the Cluster can't be read."""
    declared = cluster.get_singleton(Cluster)
    return 0 if declared is None else declared.model.spec.max_cordoned_nodes


def _cordon(node: Node, cordons: list[Cordon]) -> NodeChange | None:
    """Return the change of a node that has to be cordoned; None if it is."""
    names = tuple(sorted(cordon.name for cordon in cordons))
    if node.cordons == names and node.is_unschedulable:
        return None
    is_cordoned_before = node.is_cordoned_before if node.cordons else node.is_unschedulable
    return NodeChange(node, names, True, is_cordoned_before)
