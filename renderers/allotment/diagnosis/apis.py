"""The APIs that what is rendered is written in: whether the cluster serves them, in those versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.node_pool import NodePool
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped
from allotment.diagnosis.looked import Looked
from allotment.manifests.cluster.node_class import node_class
from allotment.manifests.cluster.node_pool import has_overlays


class Needed(NamedTuple):
    """An API version, the resources of it that are rendered, and what they come with."""

    api: str
    resources: tuple[str, ...]
    of: str
    why: str = ""
    hub: bool = False


GATEWAY = Needed(
    "gateway.networking.k8s.io/v1",
    ("gateways", "httproutes", "referencegrants"),
    "Gateway API 1.6",
    "instances are reached through it",
)
ENVOY = Needed(
    "gateway.envoyproxy.io/v1alpha1", ("securitypolicies",), "Envoy Gateway 1.9", "logins are its SecurityPolicies"
)
ARGO = Needed(
    "argoproj.io/v1alpha1",
    ("applications", "appprojects"),
    "Argo CD 3.2 or later",
    "it applies what is published",
    hub=True,
)
ADMISSION = Needed(
    "admissionregistration.k8s.io/v1",
    ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    "Kubernetes 1.30 or later",
    "they protect volumes",
)
SNAPSHOTS = Needed(
    "snapshot.storage.k8s.io/v1", ("volumesnapshots",), "external-snapshotter", "a volumeSnapshotClassName is declared"
)
BUCKETS = Needed(
    "objectbucket.io/v1alpha1",
    ("objectbucketclaims",),
    "Rook or another provisioner of buckets",
    "a bucket's class is declared",
)
DRA = Needed(
    "resource.k8s.io/v1", ("deviceclasses", "resourceslices"), "Kubernetes 1.34 or later", "a pool has sharing.dra"
)
KARPENTER = Needed("karpenter.sh/v1", ("nodepools",), "Karpenter 1.14", "a pool has karpenter")
OVERLAYS = Needed(
    "karpenter.sh/v1alpha1", ("nodeoverlays",), "Karpenter 1.14", "spec.karpenter.featureGates has NodeOverlay"
)


def needed(offers: Offers, cluster: Folder) -> list[Needed]:
    """Return the APIs that a cluster's declarations need, beside what every Kubernetes has had for long."""
    place = cluster.one(Cluster)
    pools = [one.model for one in cluster.of(NodePool).values()]
    storages = place.model.spec.storages if place else []
    found = [GATEWAY, ENVOY, ARGO, ADMISSION]
    if any(one.volume_snapshot_class_name for one in storages):
        found.append(SNAPSHOTS)
    if any(is_bucket(offers, one.storage_spec) for one in storages):
        found.append(BUCKETS)
    if any(one.spec.sharing and one.spec.sharing.dra for one in pools):
        found.append(DRA)
    bought = [(one.metadata.name, one.spec.karpenter) for one in pools if one.spec.karpenter]
    if bought:
        found += [KARPENTER, *([OVERLAYS] if has_overlays(cluster) else [])]
    classes = {
        f"{made.group}/{made.version}": Needed(
            f"{made.group}/{made.version}", (), f"Karpenter for {made.group}", "a pool's node class is written in it"
        )
        for made in (node_class(name, karpenter) for name, karpenter in bought)
        if made.spec is not None
    }
    return [*found, *classes.values()]


def is_bucket(offers: Offers, storage_spec: str) -> bool:
    """Return whether a StorageSpec is of buckets."""
    from allotment.declared.kinds.storage_spec import StorageSpec

    declared = offers.platform.of(StorageSpec).get(storage_spec)
    return declared is not None and declared.model.spec.volume is None


def check(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether each API is served, with the resources that are rendered."""
    for where, served in (("", looked.apis), (" where Argo CD runs", looked.hub_apis)):
        if not served:
            words = f"can't be checked{where}: that needs get of /apis, and what lies below"
            yield error("APIs", words, "grant it: the ClusterRole system:discovery has it")
            return
    for one in needed(offers, cluster):
        served = looked.hub_apis if one.hub else looked.apis
        resources = served.get(one.api)
        lacking = sorted(set(one.resources) - (resources or frozenset()))
        if resources is None and one.hub and looked.hub_apis is looked.apis:
            yield skipped(
                one.api, "isn't served here", "name the cluster of Argo CD: --argocd-kubeconfig or --argocd-context"
            )
        elif resources is None:
            yield error(
                one.api, f"isn't served{_others(one.api, served)}, and {one.why}", f"install {one.of}, or its CRDs"
            )
        elif lacking:
            yield error(
                one.api, f"is served without {', '.join(lacking)}, and {one.why}", f"install the CRDs of {one.of}"
            )
        else:
            yield ok(one.api, "is served")


def _others(api: str, served: Mapping[str, frozenset[str]]) -> str:
    """Return which other versions of an API are served."""
    group = api.partition("/")[0]
    found = sorted(one.partition("/")[2] for one in served if one.partition("/")[0] == group)
    return f" ({', '.join(found)} is)" if found else ""
