"""Packing: the nodes of a pool have enough GPUs (or slices of GPUs), CPU and memory for the units of all its stocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from allotment.capacity.units import Unit, node_resources, pack_stocks, pool_stocks, unit_of_spec
from allotment.declared.inventory import Catalog, DeclarationFile
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.stock import Stock
from allotment.declared.values import format_cpu, format_size
from allotment.problems import Finding, pluralize

RULE = "packing"
CPU, MEMORY = "CPU", "memory"


def check(
    catalog: Catalog, is_changed: Callable[[str, DeclarationFile[Stock]], bool] | None = None
) -> Iterator[Finding]:
    """Check every pool. Each finding is at a stock with units that don't fit.

    `is_changed` returns whether a change adds units to a stock of a cluster. If the other stocks leave too little room, the
    finding is at this stock.
    """
    for cluster in catalog.clusters.values():
        stocks = cluster.of_kind(Stock)
        for pool in cluster.of_kind(NodePool).values():
            stock_counts = pool_stocks(catalog.platform, cluster, pool.model.name)
            packing = pack_stocks(pool.model.spec, stock_counts)
            if packing.missing and is_changed is not None:
                changed = {name for name, _, _ in stock_counts if is_changed(cluster.name, stocks[name])}
                blamed = pack_stocks(pool.model.spec, stock_counts, changed)
                packing = blamed if blamed.missing else packing  # another order may have luck, and is no proof of room
            everyone = ", ".join(f"{name} {count}" for name, _, count in stock_counts)
            units = {name: (unit_of_spec(spec), count) for name, spec, count in stock_counts}
            short = _shortages(pool.model.spec, units.values())
            for name, missing in packing.missing.items():
                nodes = pool.model.spec.node_limit
                why = short or _rounding_cause(pool.model.spec, units[name][0], alone=len(units) == 1)
                message = (
                    f"{missing} of {pluralize(stocks[name].model.spec.declared_count, 'unit')} do not fit on the {pluralize(nodes, 'node')} of pool {pool.model.name}"
                    f" (its stocks: {everyone}): {why}: write at most {stocks[name].model.spec.declared_count - missing}, or more nodes"
                )
                related = (pool.path, *(stocks[other].path for other, _, _ in stock_counts))
                yield stocks[name].make_finding("spec.count", message, RULE, related=related)


def _shortages(pool: NodePoolSpec, units: Collection[tuple[Unit, int]]) -> str:
    """Return text about each resource that the nodes together lack; empty if they lack none.

    For each such resource, the text has the amount that `units` need, and the amount that the nodes have.
    """
    node, needed = _node_resources(pool), Counter[str]()
    for each, count in units:
        for resource, amount in _unit_amounts(each).items():
            needed[resource] += amount * count
    short = [
        f"{_amount_text(resource, amount)} {resource} (the nodes have {_amount_text(resource, available)})"
        for resource, amount in needed.items()
        if amount > (available := node.get(resource, 0) * pool.node_limit)
    ]
    return f"they need {', '.join(short)}" if short else ""


def _rounding_cause(pool: NodePoolSpec, unit: Unit, *, alone: bool) -> str:
    """Return the reason why a unit fits no node although the nodes together have enough resources.

    `alone` says that the pool has no other stock.
    """
    node, amounts = _node_resources(pool), _unit_amounts(unit)
    if not alone:
        each = ", ".join(f"{_amount_text(resource, amount)} {resource}" for resource, amount in amounts.items())
        return f"a unit needs {each} of the same node, and no node has all of it left"
    tight = min(amounts, key=lambda resource: node[resource] // amounts[resource])
    each, has, units = (
        _amount_text(tight, amounts[tight]),
        _amount_text(tight, node[tight]),
        node[tight] // amounts[tight],
    )
    return f"a unit needs {each} {tight}, and a node has {has}, enough for {units}"


def _node_resources(pool: NodePoolSpec) -> dict[str, int]:
    return {**node_resources(pool), CPU: pool.node.cpu, MEMORY: pool.node.memory}


def _unit_amounts(unit: Unit) -> dict[str, int]:
    return {unit.resource: unit.amount, CPU: unit.cpu, MEMORY: unit.memory}


def _amount_text(resource: str, amount: int) -> str:
    return {CPU: format_cpu, MEMORY: format_size}.get(resource, str)(amount)
