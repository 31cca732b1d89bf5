"""Render a SecretReference as an ExternalSecret, from which External Secrets Operator creates a Secret."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.secret_reference import ReferencedKey, SecretReference
from allotment.manifests import names
from allotment.manifests.yaml_text import Frozen, without_empty
from allotment.preparation.runtime_state import RuntimeState

# If somebody removes the reference, the Secret goes too. If somebody removes a value from the store, the Secret keeps
# its last values, so that a mistake in the store does not stop an instance that restarts.
_LIFECYCLE = Frozen(creationPolicy="Owner", deletionPolicy="Retain")
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
    store, name = place.model.spec.secret_store, names.secret_name(reference.name)
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
                "target": {"name": name, **_LIFECYCLE},
                "data": [
                    {"secretKey": key.name, "remoteRef": _build_remote_reference(folder, key)}
                    for key in sorted(reference.spec.keys, key=lambda key: key.name)
                ],
            },
        }
    ]


def _build_remote_reference(folder: str, key: ReferencedKey) -> dict[str, Any]:
    return without_empty({"key": f"{folder}{key.path}", "property": key.property_, **_READING})


def _format_interval(seconds: int) -> str:
    """Return a duration as Go writes it, such as 1h0m0s, because the operator may write the object again."""
    hours, minutes = divmod(seconds // 60, 60)
    text = f"{minutes}m{seconds % 60}s"
    return f"{hours}h{text}" if hours else text
