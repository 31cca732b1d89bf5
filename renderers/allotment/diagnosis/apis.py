"""Checks whether the cluster serves the API versions of the rendered manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.node_pool import NodePool
from allotment.diagnosis.cluster_snapshot import ClusterSnapshot
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped
from allotment.manifests.cluster.node_pool import build_node_class, has_overlays


class RequiredApi(NamedTuple):
    """A required API version, the resources of it that Allotment uses, and the software that provides it."""

    api: str
    resources: tuple[str, ...]
    provider: str
    reason: str = ""
    hub: bool = False


GATEWAY = RequiredApi(
    "gateway.networking.k8s.io/v1",
    ("gateways", "httproutes", "referencegrants"),
    "Gateway API 1.6",
    "HTTP traffic to instances needs it",
)
ENVOY = RequiredApi(
    "gateway.envoyproxy.io/v1alpha1",
    (
        "securitypolicies",
        "envoyextensionpolicies",
        "envoyproxies",
        "backendtrafficpolicies",
        "clienttrafficpolicies",
        "httproutefilters",
    ),
    "Envoy Gateway 1.9",
    "logins and limits need its policies",
)
CERT_MANAGER = RequiredApi(
    "cert-manager.io/v1", ("certificates",), "cert-manager", "spec.gateway.certificate has an issuer"
)
ARGO = RequiredApi(
    "argoproj.io/v1alpha1",
    ("applications", "appprojects"),
    "Argo CD 3.2 or later",
    "it applies the published manifests",
    hub=True,
)
ADMISSION = RequiredApi(
    "admissionregistration.k8s.io/v1",
    ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    "Kubernetes 1.30 or later",
    "they protect volumes",
)
SNAPSHOTS = RequiredApi(
    "snapshot.storage.k8s.io/v1", ("volumesnapshots",), "external-snapshotter", "a volumeSnapshotClassName is declared"
)
BUCKETS = RequiredApi(
    "objectbucket.io/v1alpha1",
    ("objectbucketclaims",),
    "Rook or another provisioner of buckets",
    "a StorageClass for buckets is declared",
)
SECRETS = RequiredApi(
    "external-secrets.io/v1",
    ("externalsecrets", "clustersecretstores"),
    "External Secrets Operator 1.3",
    "spec.secretStore is declared",
)
DRA = RequiredApi(
    "resource.k8s.io/v1", ("deviceclasses", "resourceslices"), "Kubernetes 1.34 or later", "a pool has sharing.dra"
)
KARPENTER = RequiredApi("karpenter.sh/v1", ("nodepools",), "Karpenter 1.14", "a pool has karpenter")
OVERLAYS = RequiredApi(
    "karpenter.sh/v1alpha1", ("nodeoverlays",), "Karpenter 1.14", "spec.karpenter.featureGates has NodeOverlay"
)


def list_required_apis(catalog: Catalog, cluster: ScopeDeclarations) -> list[RequiredApi]:
    """Return the APIs that a cluster's declarations need, except basic APIs of Kubernetes such as apps/v1."""
    place = cluster.get_singleton(Cluster)
    pools = [pool.model for pool in cluster.of_kind(NodePool).values()]
    storages = place.model.spec.storages if place else []
    requirements = [GATEWAY, ENVOY, ARGO, ADMISSION]
    certificate = place.model.spec.gateway.certificate if place else None
    if certificate is not None and certificate.issuer is not None:
        requirements.append(CERT_MANAGER)
    if any(storage.volume_snapshot_class_name for storage in storages):
        requirements.append(SNAPSHOTS)
    if any(is_bucket(catalog, storage.storage_spec) for storage in storages):
        requirements.append(BUCKETS)
    if place is not None and place.model.spec.secret_store is not None:
        requirements.append(SECRETS)
    if any(pool.spec.sharing and pool.spec.sharing.dra for pool in pools):
        requirements.append(DRA)
    bought = [(pool.metadata.name, pool.spec.karpenter) for pool in pools if pool.spec.karpenter]
    if bought:
        requirements += [KARPENTER, *([OVERLAYS] if has_overlays(cluster) else [])]
    classes = {
        f"{karpenter_class.group}/{karpenter_class.version}": RequiredApi(
            f"{karpenter_class.group}/{karpenter_class.version}",
            (),
            f"Karpenter for {karpenter_class.group}",
            "the node class of a pool has this API",
        )
        for karpenter_class in (build_node_class(name, karpenter) for name, karpenter in bought)
        if karpenter_class.spec is not None
    }
    return [*requirements, *classes.values()]


def is_bucket(catalog: Catalog, storage_spec: str) -> bool:
    """Return whether a StorageSpec declares buckets."""
    from allotment.declared.kinds.storage_spec import StorageSpec

    declared = catalog.platform.of_kind(StorageSpec).get(storage_spec)
    return declared is not None and declared.model.spec.volume is None


def check_apis(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each required API: whether the cluster serves it, with all resources that Allotment uses."""
    for where, served in (("", snapshot.apis), (" where Argo CD runs", snapshot.hub_apis)):
        if not served:
            message = f"can't be checked{where}: the permission to get /apis and all paths below is missing"
            yield error("APIs", message, "grant it: the ClusterRole system:discovery contains it")
            return
    for requirement in list_required_apis(catalog, cluster):
        served = snapshot.hub_apis if requirement.hub else snapshot.apis
        resources = served.get(requirement.api)
        lacking = sorted(set(requirement.resources) - (resources or frozenset()))
        if resources is None and requirement.hub and snapshot.hub_apis is snapshot.apis:
            yield skipped(
                requirement.api,
                "isn't served here",
                "name the cluster of Argo CD: --argocd-kubeconfig or --argocd-context",
            )
        elif resources is None:
            yield error(
                requirement.api,
                f"isn't served{_describe_other_versions(requirement.api, served)}, but {requirement.reason}",
                f"install {requirement.provider}, or its CRDs",
            )
        elif lacking:
            yield error(
                requirement.api,
                f"is served without {', '.join(lacking)}, but {requirement.reason}",
                f"install the CRDs of {requirement.provider}",
            )
        else:
            yield ok(requirement.api, "is served")


def _describe_other_versions(api: str, served: Mapping[str, frozenset[str]]) -> str:
    """Return a text with the versions of an API that the cluster serves instead; empty if it serves none."""
    group = api.partition("/")[0]
    versions = sorted(served_api.partition("/")[2] for served_api in served if served_api.partition("/")[0] == group)
    return f" (served: {', '.join(versions)})" if versions else ""
