"""Determine the cluster of each resource of a tenant."""

from __future__ import annotations

from collections.abc import Callable

from allotment.declared.inventory import ScopeDeclarations, cached_by_scope
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.references import references
from allotment.declared.tenant_resources import RESOURCE_KINDS

Lookup = Callable[[str, str], Declaration | None]


def cluster_of(model: Declaration, lookup: Lookup) -> str:
    """Return the cluster that a resource names; empty if there is none.

    If the resource names another resource of the tenant instead of a cluster, return the cluster of that resource.
    `lookup` returns a declaration of the same tenant by kind and name.
    """
    others = []
    for reference in references(model):
        if reference.to.kind == "Cluster":
            return reference.name
        if KINDS[reference.to.kind].scope == "tenant":
            others.append(reference)
    targets = (lookup(reference.to.kind, reference.name) for reference in others)
    return next((cluster_of(target, lookup) for target in targets if target is not None), "")


def cluster_in(tenant: ScopeDeclarations, model: Declaration) -> str:
    """Return the cluster of a tenant's resource; empty if the resource that determines the cluster is absent."""

    def lookup(kind: str, name: str) -> Declaration | None:
        declared = tenant.of_kind(KINDS[kind].model).get(name)
        return declared.model if declared is not None else None

    return cluster_of(model, lookup)


@cached_by_scope
def clusters_of(tenant: ScopeDeclarations) -> tuple[str, ...]:
    """Return the sorted clusters of a tenant's resources. An empty name stands for an unknown cluster."""
    clusters = {
        cluster_in(tenant, declared.model)
        for resource_kind in RESOURCE_KINDS.values()
        for declared in tenant.of_kind(resource_kind.kind.model).values()
    }
    return tuple(sorted(clusters))
