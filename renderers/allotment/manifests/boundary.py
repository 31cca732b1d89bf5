"""Where a cluster's declaration lets things lie: what the gate compares with."""

from __future__ import annotations

from typing import NamedTuple

from allotment.declared.inventory import Folder
from allotment.declared.kinds.cluster import Cluster


class Boundary(NamedTuple):
    """What a cluster's declaration says about where things may lie."""

    cluster: str
    domain: str
    gateway: tuple[str, str]
    secret_namespace: str

    @staticmethod
    def of(cluster: Folder) -> Boundary:
        """Return a declared cluster's boundary."""
        declared = cluster.one(Cluster)
        assert declared is not None
        spec = declared.model.spec
        return Boundary(
            cluster.name,
            spec.domain,
            (spec.gateway.namespace, spec.gateway.name),
            spec.oidc.client_secret_ref.namespace,
        )
