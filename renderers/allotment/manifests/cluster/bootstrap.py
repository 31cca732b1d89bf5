"""Render the objects that a platform team applies to Argo CD once: root Applications, health checks, links and
permissions.

Argo CD finds all other objects in the rendered branches. The manifests of Argo CD's ConfigMaps have only our keys.
Server-side apply leaves all other keys of these ConfigMaps unchanged.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.forges import FORGES
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.platform import Platform
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.manifests import names
from allotment.manifests.cluster import control, health
from allotment.manifests.links import graphs_page_url
from allotment.manifests.tenant import applications

ROOT_PROJECT = "allotment--root"
LABEL_TEMPLATE = '{{{{ index .{subject}.metadata.labels "allotment.dev/{label}" }}}}'
HAS_LABEL_TEMPLATE = "{subject}.metadata.labels != nil && '{label}' in {subject}.metadata.labels"
CONTROLLER_PARAMETERS = {
    # With this parameter, Argo CD stores the health of each resource in its Application, where `allot report` reads it.
    "controller.resource.health.persist": "true",
    # If a commit is published during a sync, Argo CD compares this commit, but cannot start another sync. After the
    # running sync, Argo CD treats the commit as already tried (`alreadyAttemptedSync`), so only self-heal applies it.
    # Self-heal waits before each attempt. Each wait is three times as long as the previous wait, by default up to five
    # minutes. Without this cap, an instance could start five minutes late after several merges in a row. The cap
    # applies to all Applications of this Argo CD.
    "controller.self.heal.backoff.cap.seconds": "10",
}
# Maps the word in an object's label, such as `instance`, to the folder of the declarations, such as `instances`.
DECLARED_FOLDERS = {word: resource_kind.plural for word, resource_kind in RESOURCE_KINDS.items()}


def render(catalog: Catalog) -> list[dict[str, Any]]:
    """Return the objects, including a root Application for each cluster, all in Argo CD's namespace."""
    roots = [_build_root(catalog, name) for name in sorted(catalog.clusters)]
    return [_build_project(catalog), *roots, _build_settings(catalog), _build_parameters(), _build_permissions()]


def _build_project(catalog: Catalog) -> dict[str, Any]:
    kinds = [("", "ConfigMap"), *(("argoproj.io", kind) for kind in ("AppProject", "Application"))]
    return applications.build_project(
        ROOT_PROJECT,
        catalog,
        [dict(control.HUB_DESTINATION)],
        metadata={"labels": names.labels()},
        description="Allotment's root Applications",
        clusterResourceWhitelist=[],
        namespaceResourceWhitelist=[{"group": group, "kind": kind} for group, kind in kinds],
    )


def _build_root(catalog: Catalog, cluster: str) -> dict[str, Any]:
    """Return a cluster's root Application. It has no finalizer, so its deletion deletes no instance and no data."""
    return applications.build_application(
        names.platform_application("root", cluster),
        catalog,
        catalog.clusters[cluster],
        project_name=ROOT_PROJECT,
        path="control",
        target=dict(control.HUB_DESTINATION),
        metadata={"labels": names.labels(cluster=cluster)},
    )


def _build_config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "argocd"}
    metadata = {"name": name, "namespace": names.ARGO_NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _build_settings(catalog: Catalog) -> dict[str, Any]:
    """Return our keys of argocd-cm. Argo CD finds its ConfigMaps by the label `app.kubernetes.io/part-of`."""
    data = {f"resource.customizations.health.{kind}": script for kind, script in health.load_scripts().items()}
    data["application.links"] = _build_links(catalog, "application")
    data["resource.links"] = _build_links(catalog, "resource")
    data["exec.enabled"] = "true"
    return _build_config_map("argocd-cm", data)


def _build_parameters() -> dict[str, Any]:
    """Return our keys of argocd-cmd-params-cm, which the application controller reads at startup."""
    return _build_config_map("argocd-cmd-params-cm", dict(CONTROLLER_PARAMETERS))


def _build_permissions() -> dict[str, Any]:
    """Return our keys of argocd-rbac-cm: by default, nobody has permissions.

    The AppProject of a tenant has roles with permissions for the tenant's members.
    """
    return _build_config_map("argocd-rbac-cm", {"policy.default": "", "scopes": "[groups]"})


def _build_links(catalog: Catalog, link_target: str) -> str:
    """Return the links from an Application or a resource to its declarations and graphs, in Argo CD's configuration
    format.
    """
    platform = catalog.platform.get_singleton(Platform)
    assert platform is not None
    source = platform.model.spec.git
    forge = FORGES[source.forge]
    shows = forge.folder if link_target == "application" else forge.file
    tenant = LABEL_TEMPLATE.format(subject=link_target, label="tenant")
    folder = f"{source.url.removesuffix('.git')}/{shows}/{source.branch}/tenants/{tenant}"
    if link_target == "application":
        return _format_link(
            "Declarations", folder, HAS_LABEL_TEMPLATE.format(subject=link_target, label=names.TENANT)
        ) + _build_graph_links(catalog, link_target)
    return "".join(
        _format_link(
            "Declaration",
            f"{folder}/{kinds}/{LABEL_TEMPLATE.format(subject=link_target, label=label)}.yaml",
            HAS_LABEL_TEMPLATE.format(subject=link_target, label=f"allotment.dev/{label}"),
        )
        for label, kinds in DECLARED_FOLDERS.items()
    ) + _build_graph_links(catalog, link_target)


def _build_graph_links(catalog: Catalog, link_target: str) -> str:
    """Return the links to the graphs of a tenant or an instance, for each cluster with a Grafana URL."""
    tenant_condition = HAS_LABEL_TEMPLATE.format(subject="application", label=names.TENANT)
    links = []
    for name, cluster in sorted(catalog.clusters.items()):
        declared = cluster.get_singleton(Cluster)
        if declared is None or declared.model.spec.monitoring is None:
            continue
        space = names.namespace(LABEL_TEMPLATE.format(subject="application", label="tenant"))
        instance = LABEL_TEMPLATE.format(subject=link_target, label="instance") if link_target == "resource" else ""
        url = graphs_page_url(declared.model.spec.monitoring.grafana_url, name, space, instance)
        condition = f"{tenant_condition} && application.metadata.labels['allotment.dev/cluster'] == '{name}'"
        if link_target == "resource":
            condition += f" && {HAS_LABEL_TEMPLATE.format(subject=link_target, label=names.INSTANCE)}"
        links.append(_format_link("Graphs", url, condition))
    return "".join(links)


def _format_link(title: str, url: str, condition: str) -> str:
    """Return one link in YAML. Nothing is escaped, because no part of the link comes from a tenant."""
    return f"- title: {title}\n  url: '{url}'\n  if: \"{condition}\"\n"
