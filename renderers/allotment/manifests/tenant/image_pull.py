"""Render the credentials with which the pods of a tenant pull images from private registries.

The ServiceAccount `default`, which all pods of a tenant use, lists the Secrets with the credentials. Kubernetes copies the
list to each new pod. Therefore a new credential restarts no instance, and a pod that already exists does not get it.
"""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster, SecretStore
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.secret_stores import DOCKER_CONFIG_KEY
from allotment.manifests import names
from allotment.manifests.tenant.secret_reference import build_data_entry, build_image_pull_target
from allotment.manifests.yaml_text import Frozen

_ANNOTATIONS = Frozen({names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION})
_REFRESH_INTERVAL = "1h0m0s"


def render(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the ServiceAccount and the ExternalSecret of the platform's credential; empty without a credential.

    If the last credential is removed, Argo CD deletes the ServiceAccount, and Kubernetes creates an empty ServiceAccount at once.
    """
    secrets = list_pull_secrets(cluster, tenant)
    if not secrets:
        return []
    labels = Frozen(names.labels(tenant=tenant.name))

    def metadata(name: str) -> dict[str, Any]:
        space = names.namespace(tenant.name)
        return {"name": name, "namespace": space, "labels": labels, "annotations": _ANNOTATIONS}

    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(names.SERVICE_ACCOUNT),
        "imagePullSecrets": secrets,
    }
    store = _secret_store(cluster)
    if store is None or store.image_pull is None:
        return [account]
    place = store.image_pull
    external_secret = {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": metadata(names.PLATFORM_PULL_SECRET),
        "spec": {
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": store.name},
            "refreshInterval": _REFRESH_INTERVAL,
            "target": build_image_pull_target(names.PLATFORM_PULL_SECRET),
            "data": [build_data_entry(DOCKER_CONFIG_KEY, place.path, place.property_)],
        },
    }
    return [account, external_secret]


def list_pull_secrets(cluster: ScopeDeclarations, tenant: ScopeDeclarations) -> list[dict[str, str]]:
    """Return the references to the Secrets with pull credentials of a tenant in a cluster, sorted, the platform's last."""
    store = _secret_store(cluster)
    if store is None:
        return []
    secret_names = sorted(
        names.image_pull_name(reference.model.name)
        for reference in tenant.of_kind(SecretReference).values()
        if reference.model.spec.is_image_pull and reference.model.spec.cluster == cluster.name
    )
    if store.image_pull is not None:
        secret_names.append(names.PLATFORM_PULL_SECRET)
    return [{"name": name} for name in secret_names]


def _secret_store(cluster: ScopeDeclarations) -> SecretStore | None:
    place = cluster.get_singleton(Cluster)
    return place.model.spec.secret_store if place is not None else None
