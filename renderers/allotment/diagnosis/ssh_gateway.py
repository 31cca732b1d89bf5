"""Checks whether the ClusterRole of the SSH gateway grants the rights that the gateway needs in tenants' namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.diagnosis.cluster_snapshot import SSH_GATEWAY_ROLE, ClusterSnapshot
from allotment.diagnosis.diagnosis import Diagnosis, error, ok

_REQUIRED_VERBS = {
    "configmaps": frozenset({"get"}),
    "pods": frozenset({"list"}),
    "pods/exec": frozenset({"get", "create"}),
    "pods/portforward": frozenset({"get", "create"}),
}
_ADVICE = "kubectl apply --kustomize argo/add-ons/allot-ssh of this version"


def check_ssh_gateway_role(
    snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations
) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the role if the cluster declares an SSH gateway. Raises NotReadable."""
    place = cluster.get_singleton(Cluster)
    if place is None or place.model.spec.ssh is None:
        return
    subject = f"ClusterRole {SSH_GATEWAY_ROLE.name}"
    cluster_role = snapshot.get_object(SSH_GATEWAY_ROLE)
    if cluster_role is None:
        yield error(subject, "doesn't exist, so nobody can log in by SSH", _ADVICE)
        return
    verbs_by_resource: dict[str, set[str]] = {}
    for rule in cluster_role.get("rules") or ():
        for resource in rule.get("resources", ()) if "" in rule.get("apiGroups", ()) else ():
            verbs_by_resource.setdefault(resource, set()).update(rule.get("verbs", ()))
    lacking = [
        f"{verb} of {resource}"
        for resource, verbs in _REQUIRED_VERBS.items()
        for verb in sorted(verbs - verbs_by_resource.get(resource, set()))
    ]
    if lacking:
        yield error(subject, f"doesn't grant {', '.join(lacking)}: SSH logins or sessions fail", _ADVICE)
    else:
        yield ok(subject, "grants all permissions of the SSH gateway")
