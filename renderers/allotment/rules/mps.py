"""MPS: NVIDIA's daemon serves a single user ID at a time unless it starts with -M.

Each instance has its own user IDs, so the daemon may serve only one of the instances on a GPU at a time. Every pool
with MPS gets a warning. Test that two instances work on the same GPU before you sell the units of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.node_pool import NodePool
from allotment.problems import Finding

RULE = "mps"
_MESSAGE = (
    "NVIDIA's MPS daemon serves one user ID at a time unless it is started with -M, which device plugin 0.20 doesn't do, and "
    "each instance has its own user IDs: test two instances on a GPU before you sell it"
)


def check(catalog: Catalog) -> Iterator[Finding]:
    """Warn about every pool that shares GPUs by MPS."""
    for cluster in catalog.clusters.values():
        for pool in cluster.of_kind(NodePool).values():
            sharing = pool.model.spec.sharing
            if sharing is not None and sharing.mps is not None:
                yield pool.make_finding("spec.sharing.mps", _MESSAGE, RULE, warning=True)
