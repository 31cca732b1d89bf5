"""An add-on and a cluster → its AppProject and its Application.

The project is one add-on's alone: it takes one source, and lets it bring objects into its own namespaces and of the kinds
without a namespace that its file names. Waves count, since `argoproj.io_Application.lua` gives these Applications a health,
and they are read by an Application of their own: an add-on that doesn't come up holds up other add-ons, and no tenant.
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

PROJECT_WAVE = "-1"  # before every add-on's own
# Namespaces that are there without us, or that others of our files make.
UNLABELLED_NAMESPACES = (names.DEVICE_PLUGIN_NAMESPACE, "kube-system")
# What API servers add by default to others' objects is no difference; we write such things out, charts don't.
COMPARE_ANNOTATIONS = {names.COMPARE_OPTIONS: "ServerSideDiff=true"}


def render(
    offers: Catalog,
    cluster: ScopeDeclarations,
    declared: DeclarationFile[AddOn],
    placeholders: Mapping[tuple[str, str], int],
) -> list[dict[str, Any]]:
    """Return what Argo CD needs to install an add-on in a cluster; nothing where the add-on is for others."""
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


def render_namespaces(offers: Catalog, cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the namespaces that a cluster's add-ons are installed in. An Application that makes its own needs the right to
    make and label any, a tenant's too; so none has it."""
    specs = [
        add_on.model.spec
        for add_on in offers.platform.of_kind(AddOn).values()
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
    """Return where Argo CD takes an add-on from. A release has the add-on's name, as objects of charts are named by it."""
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
