"""Domains: the domain of a cluster is neither equal to nor inside the domain of another cluster.

Each host therefore belongs to a single cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.problems import Finding

RULE = "domain"


def check(catalog: Catalog) -> Iterator[Finding]:
    """Check all pairs of clusters."""
    declared = [
        declaration
        for cluster in catalog.clusters.values()
        if (declaration := cluster.get_singleton(Cluster)) is not None
    ]
    for cluster in declared:
        for other in declared:
            domain, other_domain = cluster.model.spec.domain, other.model.spec.domain
            same = domain == other_domain and cluster.path > other.path
            if same or domain.endswith(f".{other_domain}"):
                message = f"{domain} is equal to or inside {other_domain}, the domain of cluster {other.model.name}: choose a domain outside it"
                yield cluster.make_finding("spec.domain", message, RULE, related=(other.path,))
