"""Render a SecretReference as an ExternalSecret, from which External Secrets Operator creates a Secret."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.manifests import names
from allotment.manifests.yaml_text import Frozen, without_empty
from allotment.preparation.runtime_state import RuntimeState

# If somebody removes the reference, the Secret goes too. If somebody removes a value from the store, the Secret keeps
# its last values, so that a mistake in the store does not stop an instance that restarts.
_LIFECYCLE = Frozen(creationPolicy="Owner", deletionPolicy="Retain")
# The CRD sets `engineVersion` and `mergePolicy` to these values. We write them, so that Argo CD sees no difference.
_DOCKER_CONFIG = Frozen(type="kubernetes.io/dockerconfigjson", engineVersion="v2", mergePolicy="Replace")
# Some versions of the operator set these fields to these values. We write them, so that Argo CD sees no difference.
_READING = Frozen(conversionStrategy="Default", decodingStrategy="None", metadataPolicy="None")


def render(
    _catalog: Catalog,
    cluster: ScopeDeclarations,
    tenant: ScopeDeclarations,
    _runtime_state: RuntimeState,
    declared: DeclarationFile[SecretReference],
) -> list[dict[str, Any]]:
    """Return the ExternalSecret. It reads only below the tenant's own path in the cluster's store."""
    place, reference = cluster.get_singleton(Cluster), declared.model
    assert place is not None and place.model.spec.secret_store is not None
    store, is_image_pull = place.model.spec.secret_store, reference.spec.is_image_pull
    name = names.image_pull_name(reference.name) if is_image_pull else names.secret_name(reference.name)
    folder = names.secret_folder(store.prefix, tenant.name)
    return [
        {
            "apiVersion": "external-secrets.io/v1",
            "kind": "ExternalSecret",
            "metadata": {
                "name": name,
                "namespace": names.namespace(tenant.name),
                "labels": names.labels(tenant=tenant.name, secret=reference.name),
                "annotations": {names.BLOB: declared.blob},
            },
            "spec": {
                "secretStoreRef": {"kind": "ClusterSecretStore", "name": store.name},
                "refreshInterval": _format_interval(reference.spec.refresh_interval),
                "target": build_image_pull_target(name) if is_image_pull else {"name": name, **_LIFECYCLE},
                "data": [
                    build_data_entry(key.name, f"{folder}{key.path}", key.property_)
                    for key in sorted(reference.spec.keys, key=lambda key: key.name)
                ],
            },
        }
    ]


def build_image_pull_target(name: str) -> dict[str, Any]:
    """Return the target of an ExternalSecret that becomes a pull credential.

    The template sets only the type of the Secret. The operator copies the data unchanged if the template has no data.
    """
    return {"name": name, **_LIFECYCLE, "template": _DOCKER_CONFIG}


def build_data_entry(key: str, path: str, property_name: str | None) -> dict[str, Any]:
    """Return the entry of an ExternalSecret that reads the value of a key at a path of the store."""
    return {"secretKey": key, "remoteRef": without_empty({"key": path, "property": property_name, **_READING})}


def _format_interval(seconds: int) -> str:
    """Return a duration as Go writes it, such as 1h0m0s, because the operator may write the object again."""
    hours, minutes = divmod(seconds // 60, 60)
    text = f"{minutes}m{seconds % 60}s"
    return f"{hours}h{text}" if hours else text
