"""MPS: NVIDIA's daemon serves one user at a time unless it is started for several, and each instance is a user of its own.

A pool of it is a warning until somebody has seen two instances work on one GPU there.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.node_pool import NodePool
from allotment.problems import Finding

RULE = "mps"
_MESSAGE = (
    "NVIDIA's MPS daemon makes a second user ID wait unless it is started with -M, which device plugin 0.20 doesn't do, and each"
    " instance has user IDs of its own: see two instances work on one GPU before you sell it"
)


def check(offers: Catalog) -> Iterator[Finding]:
    """Warn of every pool that shares by MPS."""
    for cluster in offers.clusters.values():
        for pool in cluster.of_kind(NodePool).values():
            sharing = pool.model.spec.sharing
            if sharing is not None and sharing.mps is not None:
                yield pool.make_finding("spec.sharing.mps", _MESSAGE, RULE, warning=True)
