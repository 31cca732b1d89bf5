"""Offers → what a platform team applies to Argo CD once: root Applications, health checks, links, who sees what.

Everything else Argo CD then finds by itself in the rendered branches. Its own ConfigMaps get our keys only: applied
server-side, other keys stay with whoever set them.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.forges import FORGES
from allotment.declared.inventory import Offers
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.platform import Platform
from allotment.declared.things import THINGS
from allotment.manifests import names
from allotment.manifests.cluster import control, health
from allotment.manifests.links import graphs_page
from allotment.manifests.tenant import applications

ROOT_PROJECT = "allotment--root"
LABELLED = '{{{{ index .{what}.metadata.labels "allotment.dev/{label}" }}}}'
HAS = "{what}.metadata.labels != nil && '{label}' in {what}.metadata.labels"
PARAMETERS = {
    # Each resource's health is kept with its Application, where a reporter reads it.
    "controller.resource.health.persist": "true",
    # Argo CD compares a commit that is published during a sync, but can't start it; after the sync it sees no newer
    # one and counts this as tried (`alreadyAttemptedSync`). Only self-heal applies it then, and its pause triples each
    # time, by default up to five minutes: after several merges in a row an instance would start that late. The cap
    # counts for every Application of this Argo CD that doesn't get in sync.
    "controller.self.heal.backoff.cap.seconds": "10",
}
# What a label on an object says about where its declaration lies.
DECLARED = {word: resource_kind.plural for word, resource_kind in THINGS.items()}


def render(offers: Offers) -> list[dict[str, Any]]:
    """Return the objects, a root Application for each cluster among them, all of Argo CD's own namespace."""
    roots = [_root(offers, name) for name in sorted(offers.clusters)]
    return [_project(offers), *roots, _settings(offers), _parameters(), _permissions()]


def _project(offers: Offers) -> dict[str, Any]:
    kinds = [("", "ConfigMap"), *(("argoproj.io", kind) for kind in ("AppProject", "Application"))]
    return applications.project(
        ROOT_PROJECT,
        offers,
        [dict(control.HUB)],
        metadata={"labels": names.labels()},
        description="Allotment's root Applications",
        clusterResourceWhitelist=[],
        namespaceResourceWhitelist=[{"group": group, "kind": kind} for group, kind in kinds],
    )


def _root(offers: Offers, cluster: str) -> dict[str, Any]:
    """A root has no finalizer: whoever deletes it by mistake loses no instance and no data."""
    return applications.application(
        names.platform_application("root", cluster),
        offers,
        offers.clusters[cluster],
        project_name=ROOT_PROJECT,
        path="control",
        target=dict(control.HUB),
        metadata={"labels": names.labels(cluster=cluster)},
    )


def _config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"}
    metadata = {"name": name, "namespace": names.ARGO_NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _settings(offers: Offers) -> dict[str, Any]:
    """Return argocd-cm's keys. Argo CD finds its settings by the label part-of."""
    data = {f"resource.customizations.health.{kind}": script for kind, script in health.checks().items()}
    data["application.links"] = _links(offers, "application")
    data["resource.links"] = _links(offers, "resource")
    data["exec.enabled"] = "true"
    return _config_map("argocd-cm", data)


def _parameters() -> dict[str, Any]:
    """Return argocd-cmd-params-cm's keys, which the application controller reads when it starts."""
    return _config_map("argocd-cmd-params-cm", dict(PARAMETERS))


def _permissions() -> dict[str, Any]:
    """Return argocd-rbac-cm's keys: by default nobody sees anything; tenants' people have roles in their projects."""
    return _config_map("argocd-rbac-cm", {"policy.default": "", "scopes": "[groups]"})


def _links(offers: Offers, link_target: str) -> str:
    """Return the links from an Application or a resource to what it was declared by, as Argo CD's configuration has
    them."""
    platform = offers.platform.one(Platform)
    assert platform is not None
    source = platform.model.spec.git
    forge = FORGES[source.forge]
    shows = forge.folder if link_target == "application" else forge.file
    tenant = LABELLED.format(what=link_target, label="tenant")
    folder = f"{source.url.removesuffix('.git')}/{shows}/{source.branch}/tenants/{tenant}"
    if link_target == "application":
        return _link("Declarations", folder, HAS.format(what=link_target, label=names.TENANT)) + _graphs(
            offers, link_target
        )
    return "".join(
        _link(
            "Declaration",
            f"{folder}/{kinds}/{LABELLED.format(what=link_target, label=label)}.yaml",
            HAS.format(what=link_target, label=f"allotment.dev/{label}"),
        )
        for label, kinds in DECLARED.items()
    ) + _graphs(offers, link_target)


def _graphs(offers: Offers, link_target: str) -> str:
    """Return the links to graphs, of each cluster that names where they are: of a tenant, or of an instance."""
    tenant_condition = HAS.format(what="application", label=names.TENANT)
    links = []
    for name, cluster in sorted(offers.clusters.items()):
        declared = cluster.one(Cluster)
        if declared is None or declared.model.spec.monitoring is None:
            continue
        space = names.namespace(LABELLED.format(what="application", label="tenant"))
        instance = LABELLED.format(what=link_target, label="instance") if link_target == "resource" else ""
        url = graphs_page(declared.model.spec.monitoring.grafana_url, name, space, instance)
        condition = f"{tenant_condition} && application.metadata.labels['allotment.dev/cluster'] == '{name}'"
        if link_target == "resource":
            condition += f" && {HAS.format(what=link_target, label=names.INSTANCE)}"
        links.append(_link("Graphs", url, condition))
    return "".join(links)


def _link(title: str, url: str, condition: str) -> str:
    """Return one entry; none of its parts is a tenant's text."""
    return f"- title: {title}\n  url: '{url}'\n  if: \"{condition}\"\n"
