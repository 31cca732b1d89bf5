"""Packing: the stocks of a pool lie on its nodes together, by GPUs or slices, CPU and memory."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.accounts.capacity import pack, pool_stocks
from allotment.declared.inventory import Offers
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.kinds.stock import Stock
from allotment.problems import Finding

RULE = "packing"


def check(offers: Offers) -> Iterator[Finding]:
    """Check every pool; a finding names the stocks that find no place."""
    for cluster in offers.clusters.values():
        stocks = cluster.of(Stock)
        for pool in cluster.of(NodePool).values():
            wanted = pool_stocks(offers, cluster, pool.model.name)
            packing = pack(pool.model.spec, wanted)
            everyone = ", ".join(f"{name} {count}" for name, _, count in wanted)
            for name, missing in packing.missing.items():
                nodes = pool.model.spec.most_nodes
                message = (
                    f"{missing} of {stocks[name].model.spec.count} units find no place on the {nodes} nodes of pool {pool.model.name}"
                    f" (its stocks: {everyone}): write fewer, or more nodes"
                )
                related = (pool.path, *(stocks[other].path for other, _, _ in wanted))
                yield stocks[name].finding("spec.count", message, RULE, related=related)
