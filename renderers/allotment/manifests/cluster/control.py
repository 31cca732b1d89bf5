"""A cluster → the Applications that sync the platform's own parts and the shards of `control/`.

`control/*.yaml` is what the one root Application of a cluster reads. A directory that an Application reads is limited
to 10 MB, so tenants are sharded by their first letter: `control/argo/<letter>/` for Argo CD's own cluster,
`control/namespaces/<letter>/` for the cluster itself. A letter's shard never moves, whatever tenants come and go.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Folder, Offers
from allotment.manifests import folders, names
from allotment.manifests.tenant import applications

HUB = {"name": "in-cluster", "namespace": names.ARGO_NAMESPACE}
ANY_KIND = {"group": "*", "kind": "*"}


def platform_project(cluster: str) -> str:
    """Return the AppProject of the platform's own Applications for a cluster. No tenant's project has this name."""
    return names.platform_application("platform", cluster)


def _application(
    offers: Offers, cluster: Folder, part: str, path: str, target: dict[str, str], wave: str | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": names.labels(cluster=cluster.name)}
    if wave is not None:
        metadata["annotations"] = {names.SYNC_WAVE: wave}
    name = names.platform_application(part, cluster.name)
    return applications.application(
        name, offers, cluster, project_name=platform_project(cluster.name), path=path, target=target, metadata=metadata
    )


def render_platform(offers: Offers, cluster: Folder) -> list[dict[str, Any]]:
    """Return the project and Applications of what belongs to no tenant: stock, node pools and add-ons apart from the
    rest, so that neither a stock that is refused nor a cluster without Karpenter, nor an add-on that doesn't come up,
    holds up what everything rests on."""
    destination = applications.destination(cluster)
    project = applications.project(
        platform_project(cluster.name),
        offers,
        [HUB, {**destination, "namespace": "*"}],
        metadata={"labels": names.labels(cluster=cluster.name), "annotations": {names.SYNC_WAVE: "-2"}},
        description=f"Allotment's own parts in cluster {cluster.name}",
        clusterResourceWhitelist=[ANY_KIND],
        namespaceResourceWhitelist=[ANY_KIND],
    )
    return [
        project,
        _application(offers, cluster, "add-ons", folders.ADD_ONS, HUB, "-1"),
        _application(offers, cluster, "namespaces-of-add-ons", "platform/add-ons", destination, "-1"),
        _application(offers, cluster, "platform", "platform/cluster", destination, "-1"),
        _application(offers, cluster, "node-pools", "platform/node-pools", destination),
        _application(offers, cluster, "stock", "platform/stock", {**destination, "namespace": names.STOCK_NAMESPACE}),
    ]


def render_shard(offers: Offers, cluster: Folder, letter: str) -> list[dict[str, Any]]:
    """Return the Applications of one letter's tenants: their namespaces there, their Applications at the hub."""
    destination = applications.destination(cluster)
    return [
        _application(offers, cluster, f"namespaces-{letter}", f"control/namespaces/{letter}", destination, "-1"),
        _application(offers, cluster, f"argo-{letter}", f"control/argo/{letter}", HUB),
    ]
