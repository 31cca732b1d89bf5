"""Checks whether Argo CD has installed each add-on in its declared version."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.add_on import AddOn
from allotment.declared.kinds.platform import Platform
from allotment.diagnosis.argocd import MAX_MESSAGE_LENGTH, failure_message, require_hub
from allotment.diagnosis.cluster_snapshot import APPLICATIONS, ClusterSnapshot, Object, index_by_name
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.manifests import names
from allotment.manifests.cluster import add_on
from allotment.problems import escape_unprintable


def check_add_ons(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each add-on of the cluster. Raises NotReadable."""
    declared = [
        declaration
        for declaration in catalog.platform.of_kind(AddOn).values()
        if declaration.model.spec.is_installed_in(cluster.name)
    ]
    if not declared:
        return
    require_hub(snapshot)
    if catalog.platform.get_singleton(Platform) is None:
        yield skipped("add-ons", "platform/platform.yaml can't be read, so the installation of add-ons is unknown")
        return
    applications, parent = (
        index_by_name(snapshot.list_objects(APPLICATIONS)),
        names.platform_application("add-ons", cluster.name),
    )
    if parent not in applications:
        yield skipped("add-ons", f"the Application {parent}, which installs them, doesn't exist")
        return
    for declaration in declared:
        _, expected_application = add_on.render(catalog, cluster, declaration, {})
        name = expected_application["metadata"]["name"]
        yield _diagnose_add_on(
            f"AddOn {declaration.model.name}", expected_application, applications.get(name), cluster.name
        )


def _diagnose_add_on(subject: str, expected_application: Object, application: Object | None, cluster: str) -> Diagnosis:
    name = expected_application["metadata"]["name"]
    if application is None:
        advice = f"look at the Application {names.platform_application('add-ons', cluster)}: add-ons of lower waves are installed first"
        return error(subject, f"isn't installed: the Application {name} doesn't exist", advice)
    status, advice = application.get("status", {}), f"argocd app get {name}"
    if message := failure_message(application):
        return error(subject, message, advice)
    version, has = (
        manifest.get("spec", {}).get("source", {}).get("targetRevision")
        for manifest in (expected_application, application)
    )
    if has != version:
        return warning(
            subject, f"has version {has} in Argo CD, but {version} is declared", f"allot publish, then {advice}"
        )
    synced, health = status.get("sync", {}).get("status", "Unknown"), status.get("health", {})
    state = health.get("status", "Unknown")
    if synced != "Synced":
        return warning(subject, f"is {synced}", advice)
    if state == "Degraded":
        return error(
            subject,
            f"is Degraded: {escape_unprintable(health.get('message') or 'no message', MAX_MESSAGE_LENGTH)}",
            advice,
        )
    if state != "Healthy":
        return warning(subject, f"is {state}", advice)
    return ok(subject, f"has version {version}, is Synced and Healthy")
