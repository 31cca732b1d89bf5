"""Destinations: each cluster has a destination of its own.

With the same destination, two Applications of Argo CD would fight over the same objects. A server is compared without the
case of its host, its default port and a slash at its end. `in-cluster` is the name of https://kubernetes.default.svc.
The rule can't compare any other name with a server, because only Argo CD knows which server has the name.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster, Destination
from allotment.problems import Finding

RULE = "destination"
_HTTPS_PORT = ":443"
_IN_CLUSTER = {"in-cluster": "https://kubernetes.default.svc"}  # as Argo CD names the cluster that it runs in


def check(catalog: Catalog) -> Iterator[Finding]:
    """Compare the destination of each cluster with those of the clusters before it."""
    owners: dict[str, Cluster] = {}
    declared = [cluster.get_singleton(Cluster) for _, cluster in sorted(catalog.clusters.items())]
    for declaration in (each for each in declared if each is not None):
        owner = owners.setdefault(_normalize(declaration.model.spec.destination), declaration.model)
        if owner is not declaration.model:
            message = (
                f"is the destination of cluster {owner.name} too: both would change the same objects; name another"
            )
            related = (f"clusters/{owner.name}/cluster.yaml",)
            yield declaration.make_finding("spec.destination", message, RULE, related=related)


def _normalize(destination: Destination) -> str:
    """Return a text that is the same for two destinations if they are known to be the same."""
    server = destination.server or _IN_CLUSTER.get(destination.name or "")
    if server is None:
        return f"name {destination.name}"
    host, _, path = server.lower().removeprefix("https://").partition("/")
    has_port = ":" in host.rpartition("]")[2]  # an IPv6 address is in brackets
    return f"server {host}{'' if has_port else _HTTPS_PORT}/{path.rstrip('/')}"
