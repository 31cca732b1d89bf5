"""Cordons: the nodes that stay in service have room for the units that instances hold.

The rule looks at the day of the check, and at the first day of each later cordon. A cordon that drains its nodes at
once is an error if the instances that it moves have no room elsewhere. Otherwise the rule warns, because the instances
stay on their nodes until they stop. If several cordons together leave too little room, the finding is at the cordon
that the change adds.
More than `maxCordonedNodes` of a cluster on one day are an error, so that a mistake does not empty a cluster.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from allotment.capacity.cordons import apply_cordons, count_cordoned_nodes, list_active_cordons
from allotment.capacity.units import UnitUsage, compute_unit_usage
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.cordon import Cordon
from allotment.declared.kinds.node_pool import NodePool
from allotment.problems import Finding, pluralize
from allotment.rules.tally import Tally

RULE = "cordon"


def check(catalog: Catalog, tally: Tally) -> Iterator[Finding]:
    """Check the cordons of every cluster."""
    for cluster in catalog.clusters.values():
        cordons = cluster.of_kind(Cordon).values()
        starts = {cordon.model.spec.start for cordon in cordons}
        for day in sorted({catalog.as_of, *(start for start in starts if start > catalog.as_of)}):
            if active := list_active_cordons(cluster, day):
                yield from _check_node_limit(cluster, active, day, tally)
                yield from _check_room(catalog, cluster, active, day, tally)


def _check_node_limit(
    cluster: ScopeDeclarations, active: list[DeclarationFile[Cordon]], day: datetime.date, tally: Tally
) -> Iterator[Finding]:
    """Check the number of nodes that are cordoned on a day."""
    declared = cluster.get_singleton(Cluster)
    nodes = sum(
        count_cordoned_nodes(pool.model.spec, (cordon.model for cordon in active if _is_of(cordon, pool)))
        for pool in cluster.of_kind(NodePool).values()
    )
    if declared is None or nodes <= (limit := declared.model.spec.max_cordoned_nodes):
        return
    cordon, is_changed = _find_cause(cluster, active, tally)
    message = (
        f"{pluralize(nodes, 'node')} of cluster {cluster.name} are cordoned on {day}, and the cluster allows {limit}:"
        f" choose different days, or write maxCordonedNodes: {nodes} in the Cluster"
    )
    yield cordon.make_finding("spec.from", message, RULE, warning=not is_changed, related=(declared.path,))


def _check_room(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    active: list[DeclarationFile[Cordon]],
    day: datetime.date,
    tally: Tally,
) -> Iterator[Finding]:
    """Check that the units that instances hold have room on a day."""
    claims = [claim for claim in tally.claims if claim.cluster == cluster.name]
    remaining = apply_cordons(catalog.platform, cluster, day)
    for usage in compute_unit_usage(catalog._replace(clusters={cluster.name: remaining}), claims):
        if usage.excess > usage._replace(stocks=usage.stocks.without_cordons).excess:
            yield _build_finding(cluster, active, day, usage, tally)


def _build_finding(
    cluster: ScopeDeclarations,
    active: list[DeclarationFile[Cordon]],
    day: datetime.date,
    usage: UnitUsage,
    tally: Tally,
) -> Finding:
    """Return the finding about the units of a GPUSpec that have no room on a day."""
    pools = {stock.model.spec.node_pool for stock in usage.stocks.all_stocks if stock.model.spec.cordoned_units}
    cordon, is_changed = _find_cause(
        cluster, [cordon for cordon in active if cordon.model.spec.node_pool in pools], tally
    )
    held_units, count = (
        sum(usage.held_by_tenant.values()),
        sum(stock.model.spec.count for stock in usage.stocks.all_stocks),
    )
    others = ", ".join(other.model.name for other in active if other.model.name != cordon.model.name)
    together = f" together with {others}" if others else ""
    moves = cordon.model.spec.drain == "Now"
    outcome = (
        "the instances that move would wait: stop instances first, choose another day, or write drain: WhenStopped"
        if moves
        else "the instances stay on their nodes until they stop, and then wait"
    )
    message = (
        f"instances hold {pluralize(held_units, 'unit')} of {usage.gpu_spec}, and {cluster.name} has room for {count} from"
        f" {day} on{together}: {outcome}"
    )
    return cordon.make_finding(
        "spec.from", message, RULE, warning=not (is_changed and moves), related=tuple(other.path for other in active)
    )


def _find_cause(
    cluster: ScopeDeclarations, active: list[DeclarationFile[Cordon]], tally: Tally
) -> tuple[DeclarationFile[Cordon], bool]:
    """Return a cordon that the change adds, and True; if it adds none, one of the others, and False.

    Of several cordons, a drain comes before the others, and then the cordon with the latest start.
    """
    changed = [cordon for cordon in active if tally.is_changed_cordon(cluster.name, cordon)]
    latest = max(
        changed or active,
        key=lambda cordon: (cordon.model.spec.drain == "Now", cordon.model.spec.start, cordon.model.name),
    )
    return latest, bool(changed)


def _is_of(cordon: DeclarationFile[Cordon], pool: DeclarationFile[NodePool]) -> bool:
    return cordon.model.spec.node_pool == pool.model.name
