"""Checks whether the ClusterRole of the reporter grants access to all kinds that this version of `allot` watches."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.diagnosis.cluster_snapshot import REPORTER_ROLE, ClusterSnapshot
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped
from allotment.observed.decoding import CLUSTER_KINDS, HUB_KINDS

REQUIRED_VERBS = frozenset({"list", "watch"})


def check_reporter_role(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the role, which must grant list and watch of each kind. Raises NotReadable."""
    subject = f"ClusterRole {REPORTER_ROLE.name}"
    cluster_role = snapshot.get_object(REPORTER_ROLE)
    if cluster_role is None:
        yield skipped(
            subject, "doesn't exist: no reporter is installed from argo/add-ons, or its role has another name"
        )
        return
    may = {
        (group, resource)
        for rule in cluster_role.get("rules") or ()
        if set(rule.get("verbs", ())) >= REQUIRED_VERBS or "*" in rule.get("verbs", ())
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
    }
    lacking = [
        f"{resource}.{group}" if group else resource
        for group, resource in sorted(set(list_watched_resources()))
        if not may & {(group, resource), (group, "*"), ("*", resource), ("*", "*")}
    ]
    if lacking:
        advice = "kubectl apply --kustomize argo/add-ons/allot-run (or allot-report) of this version"
        yield error(
            subject, f"doesn't grant list and watch of {', '.join(lacking)}: the reporter writes no status", advice
        )
    else:
        yield ok(subject, "grants all permissions of the reporter")


def list_watched_resources() -> list[tuple[str, str]]:
    """Return the API group and the resource of each kind that a reporter watches."""
    resources = []
    for kind in (*CLUSTER_KINDS, *HUB_KINDS):
        parts = kind.path.strip("/").split("/")  # api/v1/pods, apis/apps/v1/deployments
        resources.append(("" if parts[0] == "api" else parts[1], parts[-1]))
    return resources
