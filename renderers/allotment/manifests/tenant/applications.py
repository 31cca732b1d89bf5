"""Render a tenant's AppProject and Applications, and the ReferenceGrant that lets its routes use the login secret."""

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
    ("external-secrets.io", "ExternalSecret"),
    ("gateway.envoyproxy.io", "BackendTrafficPolicy"),
    ("gateway.envoyproxy.io", "SecurityPolicy"),
    ("gateway.networking.k8s.io", "HTTPRoute"),
    ("objectbucket.io", "ObjectBucketClaim"),
    ("snapshot.storage.k8s.io", "VolumeSnapshot"),
)
# Controllers create objects of these kinds. A project permits these kinds because Argo CD shows only objects of
# permitted kinds, and offers logs and terminals only for objects that it shows. The permission gives a tenant no new
# power, because the tenant's Deployments create pods anyway. `project_roles` defines the roles that may open terminals.
CONTROLLER_KINDS = (("", "Pod"), ("apps", "ReplicaSet"))
_PERMITTED_KINDS = [Frozen(group=group, kind=kind) for group, kind in (*TENANT_KINDS, *CONTROLLER_KINDS)]
_KINDS_WITHOUT_SECRETS = [kind for kind in _PERMITTED_KINDS if kind["kind"] != "ExternalSecret"]
# All resources of a tenant have the same sync wave and no hooks, so a failed preparation blocks no other resource.
# Argo CD retries a failed sync without end, with the newest commit.
SYNC_POLICY = Frozen(
    # We want `allowEmpty: false`, which is the default, but omit the field. If we wrote it, Argo CD would drop the
    # field when it writes an Application, would then see a difference, and would self-heal forever.
    automated={"prune": True, "selfHeal": True},
    # We do not set RespectIgnoreDifferences. With this option, Argo CD copies the live status of an Application into
    # the manifest of the Application, and applies the manifest. If the status changes between these two steps, the copy
    # overwrites the newer status. Argo CD then considers the last sync of the Application as failed, and stops
    # self-healing the Application.
    syncOptions=["ServerSideApply=true", "FailOnSharedResource=true"],
    retry={"limit": -1, "backoff": {"duration": "5s", "factor": 2, "maxDuration": "3m0s"}, "refresh": True},
)
# This field declares the source as a directory, so Argo CD does not detect the type. The field has `include`, because
# Argo CD would drop an empty field.
DIRECTORY_SOURCE = Frozen(include=f"*{paths.FILE_SUFFIX}")
PROJECT_WAVE = {names.SYNC_WAVE: "-2"}


def build_destination(cluster: ScopeDeclarations) -> dict[str, str]:
    """Return a cluster's destination in the form of Argo CD."""
    place = cluster.get_singleton(Cluster)
    assert place is not None
    target = place.model.spec.destination
    return {"name": target.name} if target.name is not None else {"server": str(target.server)}


def rendered_repository_url(catalog: Catalog) -> str:
    """Return the URL of the repository from which Argo CD reads the rendered branches."""
    platform = catalog.platform.get_singleton(Platform)
    assert platform is not None
    return platform.model.spec.git.rendered or platform.model.spec.git.url


def list_permitted_kinds(cluster: ScopeDeclarations) -> list[Frozen]:
    """Return the kinds of objects that a tenant's AppProject permits, as Argo CD writes them.

    Without a declared secret store, no admission policy restricts ExternalSecrets, so the project does not permit them.
    """
    place = cluster.get_singleton(Cluster)
    has_store = place is not None and place.model.spec.secret_store is not None
    return _PERMITTED_KINDS if has_store else _KINDS_WITHOUT_SECRETS


def build_project(name: str, catalog: Catalog, destinations: list[dict[str, str]], **more: Any) -> dict[str, Any]:
    """Return an AppProject that allows only the repository with the rendered branches.

    If somebody deletes the Application that created the project, the project stays. Without the project, the
    Applications in it could neither sync nor be deleted.
    """
    extra_metadata = dict(more.pop("metadata", {}))
    annotations = {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION, **extra_metadata.pop("annotations", {})}
    metadata = {"name": name, "namespace": names.ARGO_NAMESPACE, **extra_metadata, "annotations": annotations}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": metadata,
        "spec": {"sourceRepos": [rendered_repository_url(catalog)], "destinations": destinations, **more},
    }


def build_application(
    name: str,
    catalog: Catalog,
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
                "repoURL": rendered_repository_url(catalog),
                "targetRevision": names.rendered_branch(cluster.name),
                "path": path,
                "directory": DIRECTORY_SOURCE,
            },
            "destination": target,
            "syncPolicy": SYNC_POLICY,
        },
    }


def render(catalog: Catalog, cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the objects with which Argo CD syncs a tenant to a cluster: an AppProject, then the Applications."""
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
            catalog,
            [target],
            metadata={"labels": labels, "annotations": PROJECT_WAVE},
            description=f"Tenant {tenant.name} in cluster {cluster.name}",
            clusterResourceWhitelist=[],
            namespaceResourceWhitelist=list_permitted_kinds(cluster),
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
                catalog,
                cluster,
                project_name=name,
                path=path,
                target=target,
                metadata=metadata,
            )
        )
    return objects


def render_secret_grant(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the ReferenceGrant that lets a tenant's SecurityPolicies refer to the login's client secret."""
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
