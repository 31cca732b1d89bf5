"""Gateway namespaces: a managed Gateway shares its namespace with no add-on.

Envoy Gateway creates a Deployment, a Service and other objects with the name of the Gateway in this namespace. Objects of
an add-on with the same names would be overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog
from allotment.declared.kinds.add_on import AddOn
from allotment.declared.kinds.cluster import Cluster
from allotment.problems import Finding

RULE = "gateway-namespace"


def check(catalog: Catalog) -> Iterator[Finding]:
    """Compare the namespace of each managed Gateway with the namespaces of the add-ons in the same cluster."""
    for declarations in catalog.clusters.values():
        cluster = declarations.get_singleton(Cluster)
        if cluster is None or not cluster.model.spec.gateway.managed:
            continue
        namespace = cluster.model.spec.gateway.namespace
        for add_on in catalog.platform.of_kind(AddOn).values():
            spec = add_on.model.spec
            if namespace in (spec.namespace, *spec.other_namespaces) and spec.is_installed_in(cluster.model.name):
                message = f"{namespace} is a namespace of the add-on {add_on.model.name}, whose objects Envoy Gateway could overwrite: write a namespace for the managed Gateway alone, such as edge"
                yield cluster.make_finding("spec.gateway.namespace", message, RULE, related=(add_on.path,))
