"""Render the Applications that sync the platform's own parts of a cluster, and the tenants' folders in `control/`.

A cluster's root Application reads `control/*.yaml`. Argo CD limits the directory of an Application to 10 MB, so the
tenants are divided into shards by their first letter. Argo CD syncs `control/argo/<letter>/` to the cluster in which it
runs, and `control/namespaces/<letter>/` to the declared cluster. If other tenants are added or removed, a tenant stays
in its shard.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.manifests import argo_folders, names
from allotment.manifests.tenant import applications

HUB_DESTINATION = {"name": "in-cluster", "namespace": names.ARGO_NAMESPACE}
ANY_KIND = {"group": "*", "kind": "*"}


def platform_project_name(cluster: str) -> str:
    """Return the name of the AppProject for the platform's own Applications; no tenant's project has this name."""
    return names.platform_application("platform", cluster)


def _build_application(
    catalog: Catalog, cluster: ScopeDeclarations, part: str, path: str, target: dict[str, str], wave: str | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": names.labels(cluster=cluster.name)}
    if wave is not None:
        metadata["annotations"] = {names.SYNC_WAVE: wave}
    name = names.platform_application(part, cluster.name)
    return applications.build_application(
        name,
        catalog,
        cluster,
        project_name=platform_project_name(cluster.name),
        path=path,
        target=target,
        metadata=metadata,
    )


def render_platform(catalog: Catalog, cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the AppProject and Applications of the platform's own parts.

    Stocks, node pools and add-ons have separate Applications. If the API server refuses a stock, if Karpenter is
    missing, or if an add-on is unhealthy, Argo CD still syncs the objects in `platform/cluster`, which tenants need.
    """
    destination = applications.build_destination(cluster)
    project = applications.build_project(
        platform_project_name(cluster.name),
        catalog,
        [HUB_DESTINATION, {**destination, "namespace": "*"}],
        metadata={"labels": names.labels(cluster=cluster.name), "annotations": {names.SYNC_WAVE: "-2"}},
        description=f"Allotment's own parts in cluster {cluster.name}",
        clusterResourceWhitelist=[ANY_KIND],
        namespaceResourceWhitelist=[ANY_KIND],
    )
    return [
        project,
        _build_application(catalog, cluster, "add-ons", argo_folders.ADD_ONS_FOLDER, HUB_DESTINATION, "-1"),
        _build_application(catalog, cluster, "namespaces-of-add-ons", "platform/add-ons", destination, "-1"),
        _build_application(catalog, cluster, "platform", "platform/cluster", destination, "-1"),
        _build_application(catalog, cluster, "node-pools", "platform/node-pools", destination),
        _build_application(
            catalog, cluster, "stock", "platform/stock", {**destination, "namespace": names.STOCK_NAMESPACE}
        ),
    ]


def render_shard(catalog: Catalog, cluster: ScopeDeclarations, letter: str) -> list[dict[str, Any]]:
    """Return the two Applications of a shard.

    One syncs the namespaces of the tenants to the cluster. The other syncs the Applications of the tenants to the
    cluster in which Argo CD runs.
    """
    destination = applications.build_destination(cluster)
    return [
        _build_application(catalog, cluster, f"namespaces-{letter}", f"control/namespaces/{letter}", destination, "-1"),
        _build_application(catalog, cluster, f"argo-{letter}", f"control/argo/{letter}", HUB_DESTINATION),
    ]
