"""Tenant → its AppProject and Applications, and the grant that lets its routes use the login's secret."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.tenant_resources import TREE_PARTS
from allotment.manifests import names, paths
from allotment.manifests.tenant import project_roles
from allotment.manifests.yaml_text import Frozen, without_empty

TENANT_KINDS = (
    ("", "ConfigMap"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("apps", "Deployment"),
    ("batch", "Job"),
    ("gateway.envoyproxy.io", "SecurityPolicy"),
    ("gateway.networking.k8s.io", "HTTPRoute"),
    ("objectbucket.io", "ObjectBucketClaim"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
)
# What controllers make of these. Argo CD shows nothing that a project doesn't permit, and gives logs and terminals of nothing
# that it doesn't show. Who may bring a Deployment may bring its pods; whose terminals are open, the roles say (project_roles).
CONTROLLER_KINDS = (("", "Pod"), ("apps", "ReplicaSet"))
KIND_WHITELIST = [Frozen(group=group, kind=kind) for group, kind in (*TENANT_KINDS, *CONTROLLER_KINDS)]
# One wave, no hooks: a failed preparation holds up nothing else. Retries go on, from the newest commit.
SYNC_POLICY = Frozen(
    # No `allowEmpty: false` either, though it is what we want and the default: Argo CD drops it when it writes an
    # Application itself, takes that for a difference, and heals it for ever.
    automated={"prune": True, "selfHeal": True},
    # No RespectIgnoreDifferences: it copies an Application's live status into what is applied to it, and a status
    # that was written meanwhile is lost. Such an Application then takes its last sync for one that failed, and
    # heals no more.
    syncOptions=["ServerSideApply=true", "FailOnSharedResource=true"],
    retry={"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m0s"}, "refresh": True},
)
# Spelt out, so that Argo CD never asks what kind of a folder it is. With `include` it keeps it; an empty one it drops.
DIRECTORY_SOURCE = Frozen(include=f"*{paths.FILE_SUFFIX}")
PROJECT_WAVE = {names.SYNC_WAVE: "-2"}


def build_destination(cluster: ScopeDeclarations) -> dict[str, str]:
    """Return a cluster as Argo CD's destinations name it."""
    place = cluster.get_singleton(Cluster)
    assert place is not None
    target = place.model.spec.destination
    return {"name": target.name} if target.name is not None else {"server": str(target.server)}


def rendered_repository_url(offers: Catalog) -> str:
    """Return the address that Argo CD reads the rendered branches from."""
    platform = offers.platform.get_singleton(Platform)
    assert platform is not None
    return platform.model.spec.git.rendered or platform.model.spec.git.url


def build_project(name: str, offers: Catalog, destinations: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    """Return an AppProject for our own repository. It outlives the Application that made it: those of the project could
    neither sync nor be deleted without it."""
    extra_metadata = dict(more.pop("metadata", {}))
    annotations = {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION, **extra_metadata.pop("annotations", {})}
    metadata = {"name": name, "namespace": names.ARGO_NAMESPACE, **extra_metadata, "annotations": annotations}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": metadata,
        "spec": {"sourceRepos": [rendered_repository_url(offers)], "destinations": destinations, **more},
    }


def build_application(
    name: str,
    offers: Catalog,
    cluster: ScopeDeclarations,
    *,
    project_name: str,
    path: str,
    target: dict[str, str],
    metadata: dict[str, Any],
) -> dict[str, Any]:
    """Return an Application that syncs one folder of the cluster's rendered branch."""
    annotations = {
        names.GENERATE_PATHS: f"/{path}",
        names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION,
        **metadata.pop("annotations", {}),
    }
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name, "namespace": names.ARGO_NAMESPACE, **metadata, "annotations": annotations},
        "spec": {
            "project": project_name,
            "source": {
                "repoURL": rendered_repository_url(offers),
                "targetRevision": names.rendered_branch(cluster.name),
                "path": path,
                "directory": DIRECTORY_SOURCE,
            },
            "destination": target,
            "syncPolicy": SYNC_POLICY,
        },
    }


def render(offers: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return what Argo CD needs to sync a tenant into a cluster: the project first (wave −2), the Applications last."""
    declared = tenant.get_singleton(Tenant)
    assert declared is not None
    space = names.namespace(tenant.name)
    name = names.project(tenant.name, cluster.name)
    labels = Frozen(
        {
            **names.labels(tenant=tenant.name, cluster=cluster.name),
            names.PLAN: declared.model.spec.plan,
            names.LIFECYCLE: declared.model.spec.lifecycle,
        }
    )
    target = Frozen({**build_destination(cluster), "namespace": space})
    roles = project_roles.render(name, tenant)
    objects = [
        build_project(
            name,
            offers,
            [target],
            metadata={"labels": labels, "annotations": PROJECT_WAVE},
            description=f"Tenant {tenant.name} in cluster {cluster.name}",
            clusterResourceWhitelist=[],
            namespaceResourceWhitelist=KIND_WHITELIST,
            **without_empty({"roles": roles}),
        )
    ]
    for part in TREE_PARTS:
        metadata: dict[str, Any] = {"labels": labels}
        if part == "compute":
            metadata["finalizers"] = ["resources-finalizer.argocd.argoproj.io/background"]
        path = f"tenants/{tenant.name}/{part}"
        objects.append(
            build_application(
                names.application(tenant.name, cluster.name, part),
                offers,
                cluster,
                project_name=name,
                path=path,
                target=target,
                metadata=metadata,
            )
        )
    return objects


def render_secret_grant(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the grant that lets a tenant's SecurityPolicies name the login's client secret."""
    place = cluster.get_singleton(Cluster)
    assert place is not None
    secret = place.model.spec.oidc.client_secret_ref
    source = {"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": names.namespace(tenant.name)}
    return [
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "ReferenceGrant",
            "metadata": {
                "name": f"allotment--{tenant.name}",
                "namespace": secret.namespace,
                "labels": names.labels(tenant=tenant.name),
                "annotations": {names.SYNC_OPTIONS: names.KEEP_OPTIONS},
            },
            "spec": {"from": [source], "to": [{"group": "", "kind": "Secret", "name": secret.name}]},
        }
    ]
