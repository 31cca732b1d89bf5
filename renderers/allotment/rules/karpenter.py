"""Karpenter's pools: a pool with spec.sharing needs the feature gate NodeOverlay of Karpenter in its cluster.

The rule warns about a pool that sets expireAfter, because Karpenter deletes an expired node before it creates the
replacement. It also warns about a pool that sets generation if the stocks fill as many nodes as maxNodes allows. The
pool then has no room for a replacement node.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.capacity.units import pack_stocks, pool_stocks
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.values import format_duration
from allotment.problems import Finding

RULE = "karpenter"


def check(catalog: Catalog) -> Iterator[Finding]:
    """Check every pool of Karpenter."""
    for cluster in catalog.clusters.values():
        for pool in cluster.of_kind(NodePool).values():
            if pool.model.spec.karpenter is not None:
                yield from _check_overlay(cluster, pool)
                yield from _check_expiry(pool)
                yield from _check_spare_nodes(catalog, cluster, pool)


def _check_overlay(cluster: ScopeDeclarations, pool: DeclarationFile[NodePool]) -> Iterator[Finding]:
    """Check that the cluster of a pool with sharing has the feature gate NodeOverlay.

    Without a NodeOverlay, Karpenter expects only whole GPUs on a new node, and creates no node for a slice.
    """
    place, sharing = cluster.get_singleton(Cluster), pool.model.spec.sharing
    if place is None or sharing is None or "NodeOverlay" in place.model.spec.karpenter.feature_gates:
        return
    message = (
        f"Karpenter creates no nodes for slices of a GPU without its feature gate NodeOverlay, which cluster {cluster.name} "
        "doesn't declare: enable it in Karpenter and list it under spec.karpenter.featureGates of the cluster, or make the pool static"
    )
    yield pool.make_finding("spec.sharing", message, RULE, related=(place.path,))


def _check_expiry(pool: DeclarationFile[NodePool]) -> Iterator[Finding]:
    karpenter = pool.model.spec.karpenter
    if karpenter is None or karpenter.expire_after is None:
        return
    message = (
        f"a node older than {format_duration(karpenter.expire_after)} accepts no new instances, and Karpenter deletes it before it "
        "creates a replacement: remove the field, and increase spec.generation to replace the nodes in turn"
    )
    yield pool.make_finding("spec.karpenter.expireAfter", message, RULE, warning=True)


def _check_spare_nodes(
    catalog: Catalog, cluster: ScopeDeclarations, pool: DeclarationFile[NodePool]
) -> Iterator[Finding]:
    """Check that the pool has room for a replacement node.

    Karpenter creates the replacement before it deletes the old node, and never exceeds maxNodes.
    """
    karpenter = pool.model.spec.karpenter
    if karpenter is None or pool.model.spec.generation is None:
        return
    filled = pack_stocks(pool.model.spec, pool_stocks(catalog.platform, cluster, pool.model.name)).nodes
    if filled >= karpenter.max_nodes:
        message = (
            f"its stocks fill {filled} of {karpenter.max_nodes} nodes, and Karpenter creates a replacement before it deletes a node: "
            "while all nodes are used, none is replaced; increase maxNodes, or lower the stocks"
        )
        yield pool.make_finding("spec.karpenter.maxNodes", message, RULE, warning=True)
