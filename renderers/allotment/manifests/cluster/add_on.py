"""Render the AppProject and the Application of an add-on in a cluster.

Each add-on has its own AppProject. The project allows one source, the add-on's own namespaces, and the cluster-scoped
kinds that the declaration names. Argo CD installs add-ons in the order of their sync waves: an add-on waits until all
add-ons of earlier waves are healthy. The health check `argoproj.io_Application.lua` determines their health. One
separate Application syncs the Applications of all add-ons. Therefore an add-on that does not become healthy blocks the
add-ons of later waves, but no tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.add_on import OCI_PREFIX, AddOn, AddOnSpec, Chart
from allotment.manifests import names
from allotment.manifests.cluster.control import ANY_KIND
from allotment.manifests.tenant import applications
from allotment.manifests.yaml_text import without_empty

PROJECT_WAVE = "-1"  # Argo CD syncs the AppProjects of all add-ons before any Application of an add-on
# Namespaces that we do not render here: `foundation` renders the first, and Kubernetes creates the second.
UNLABELLED_NAMESPACES = (names.DEVICE_PLUGIN_NAMESPACE, "kube-system")
# The API server adds defaults to an object. Our own manifests contain these defaults, but charts do not. With
# server-side diff, Argo CD does not report added defaults as differences.
COMPARE_ANNOTATIONS = {names.COMPARE_OPTIONS: "ServerSideDiff=true"}


def render(
    catalog: Catalog,
    cluster: ScopeDeclarations,
    declared: DeclarationFile[AddOn],
    placeholders: Mapping[tuple[str, str], int],
) -> list[dict[str, Any]]:
    """Return the objects with which Argo CD installs an add-on; empty if the add-on excludes the cluster."""
    spec, name = declared.model.spec, declared.model.name
    if not spec.is_installed_in(cluster.name):
        return []
    own = names.add_on(name, cluster.name)
    labels = names.labels(cluster=cluster.name, add_on=name)
    source = _build_source(name, spec)
    spaces = [
        {**applications.build_destination(cluster), "namespace": space}
        for space in (spec.namespace, *spec.other_namespaces)
    ]
    project = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": _build_metadata(own, labels, {names.SYNC_WAVE: PROJECT_WAVE}),
        "spec": {
            "sourceRepos": [source["repoURL"]],
            "destinations": spaces,
            "description": f"Add-on {name} in cluster {cluster.name}",
            "clusterResourceWhitelist": [
                {"group": resource.group, "kind": resource.kind} for resource in spec.cluster_resources
            ],
            "namespaceResourceWhitelist": [ANY_KIND],
        },
    }
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": _build_metadata(own, labels, {names.SYNC_WAVE: str(spec.wave), **COMPARE_ANNOTATIONS}),
        "spec": {"project": own, "source": source, "destination": spaces[0], "syncPolicy": applications.SYNC_POLICY},
    }
    return [project, application]


def render_namespaces(catalog: Catalog, cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the namespaces of a cluster's add-ons.

    The Application of an add-on does not create the namespaces of the add-on. To create them, the Application would
    need the permission to create and label any namespace, even a tenant's.
    """
    specs = [
        add_on.model.spec
        for add_on in catalog.platform.of_kind(AddOn).values()
        if add_on.model.spec.is_installed_in(cluster.name)
    ]
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": space,
                "labels": names.labels(),
                "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS},
            },
        }
        for space in sorted({spec.namespace for spec in specs} - set(UNLABELLED_NAMESPACES))
    ]


def _build_metadata(name: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    outliving = {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION, **annotations}
    return {"name": name, "namespace": names.ARGO_NAMESPACE, "labels": labels, "annotations": outliving}


def _build_source(name: str, spec: AddOnSpec) -> dict[str, Any]:
    """Return the source of an add-on.

    The Helm release has the name of the add-on, because charts name their objects after the release.
    """
    if spec.chart is None:
        assert spec.manifests is not None
        folder = spec.manifests
        return {"repoURL": folder.repo_url, "targetRevision": folder.revision, "path": folder.path}
    helm = without_empty({"releaseName": name, "valuesObject": spec.values})
    return {**_chart_source(spec.chart), "helm": helm}


def _chart_source(chart: Chart) -> dict[str, str]:
    if chart.repo_url.startswith(OCI_PREFIX):
        image = f"{chart.repo_url.rstrip('/')}/{chart.name}"
        return {"repoURL": image, "targetRevision": chart.digest or chart.version, "path": "."}
    return {"repoURL": chart.repo_url, "targetRevision": chart.version, "chart": chart.name}
