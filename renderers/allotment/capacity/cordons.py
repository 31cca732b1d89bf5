"""Takes the units out of the stocks of a cluster that have no room while nodes are cordoned, and lists planned cordons."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable
from typing import NamedTuple

from allotment.capacity.units import pack_stocks, pool_stocks, set_cordoned_units
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cordon import Cordon
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.stock import Stock


class PlannedCordon(NamedTuple):
    """A cordon that has not ended. `gpu_specs` are the GPUSpecs with units in no other node pool of the cluster.

    `node` is None for all nodes of the pool. `until` is None if no end is declared.
    """

    cluster: str
    name: str
    pool: str
    node: str | None
    gpu_specs: frozenset[str]
    start: datetime.date
    until: datetime.date | None
    reason: str
    moves_instances: bool

    @property
    def period(self) -> str:
        """The days of the cordon, for a sentence."""
        return f"from {self.start}" + (f" until {self.until}" if self.until is not None else "")

    @property
    def target(self) -> str:
        """The node, or the node pool, for a sentence."""
        return f"node {self.node}" if self.node is not None else f"node pool {self.pool}"

    @property
    def effect(self) -> str:
        """The effect on an instance on a node of the cordon, for a sentence."""
        if self.moves_instances:
            return f"the instance restarts on another node on {self.start}"
        return "the instance stays there until it stops, and then starts on another node"

    def covers_instance(self, cluster: str, gpu_spec: str, nodes: Collection[str]) -> bool:
        """Return whether an instance has a pod on a node of the cordon."""
        on_node = self.node in nodes if self.node is not None else bool(nodes) and gpu_spec in self.gpu_specs
        return cluster == self.cluster and on_node


def list_planned_cordons(catalog: Catalog) -> tuple[PlannedCordon, ...]:
    """Return the cordons of all clusters that have not ended, sorted by cluster and name."""
    return tuple(
        PlannedCordon(
            cluster=cluster.name,
            name=cordon.model.name,
            pool=spec.node_pool,
            node=spec.node,
            gpu_specs=_find_exclusive_specs(cluster, spec.node_pool),
            start=spec.start,
            until=spec.until,
            reason=spec.reason,
            moves_instances=spec.drain == "Now",
        )
        for _, cluster in sorted(catalog.clusters.items())
        for cordon in cluster.of_kind(Cordon).values()
        if not (spec := cordon.model.spec).has_ended(catalog.as_of)
    )


def _find_exclusive_specs(cluster: ScopeDeclarations, pool: str) -> frozenset[str]:
    pools: dict[str, set[str]] = {}
    for stock in cluster.of_kind(Stock).values():
        pools.setdefault(stock.model.spec.gpu_spec, set()).add(stock.model.spec.node_pool)
    return frozenset(spec for spec, names in pools.items() if names == {pool})


def list_active_cordons(cluster: ScopeDeclarations, day: datetime.date) -> list[DeclarationFile[Cordon]]:
    """Return the cordons of a cluster that are active on a day, sorted by name."""
    return [cordon for cordon in cluster.of_kind(Cordon).values() if cordon.model.spec.is_active(day)]


def apply_cordons(platform: ScopeDeclarations, cluster: ScopeDeclarations, day: datetime.date) -> ScopeDeclarations:
    """Return the cluster as its active cordons leave it on a day.

    `count` of each Stock has the units that fit on the other nodes, and `cordoned_units` the rest. Shared stocks lose
    units before reserved stocks. `cluster` may already have the stocks of another day.
    """
    if not cluster.of_kind(Cordon):
        return cluster
    active = list_active_cordons(cluster, day)
    lost: dict[str, int] = {}
    for name in {cordon.model.spec.node_pool for cordon in active}:
        if (pool := cluster.of_kind(NodePool).get(name)) is not None:
            cordons = [cordon.model for cordon in active if cordon.model.spec.node_pool == name]
            lost |= _count_lost_units(platform, cluster, pool.model, cordons)
    stocks = (set_cordoned_units(stock, lost.get(name, 0)) for name, stock in cluster.of_kind(Stock).items())
    others = (declaration for declaration in cluster.all_declarations() if not isinstance(declaration.model, Stock))
    return ScopeDeclarations(cluster.scope, [*others, *stocks], cluster.invalid)


def count_cordoned_nodes(pool: NodePoolSpec, cordons: Iterable[Cordon]) -> int:
    """Return the number of nodes that the cordons of a pool take out of service, at most all nodes of the pool."""
    names = {cordon.spec.node for cordon in cordons}
    return pool.node_limit if None in names else min(len(names), pool.node_limit)


def _count_lost_units(
    platform: ScopeDeclarations, cluster: ScopeDeclarations, pool: NodePool, cordons: Iterable[Cordon]
) -> dict[str, int]:
    """Return the number of units of each stock of a pool that don't fit on the nodes without a cordon."""
    stocks = pool_stocks(platform, cluster, pool.name)
    shared = [name for name, stock in cluster.of_kind(Stock).items() if stock.model.spec.tenant is None]
    left = pool.spec.node_limit - count_cordoned_nodes(pool.spec, cordons)
    return pack_stocks(pool.spec, stocks, shared, nodes=left).missing
