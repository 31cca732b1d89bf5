"""Render the admission policy that keeps the ExternalSecrets of each tenant below the tenant's own path."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.manifests import names
from allotment.manifests.cluster.foundation import build_policy, build_resource_rule

_NAME = "allotment-tenant-secrets"
_STORE_PATH = "^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$"


def render(cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the policy with its binding; empty if the cluster has no secret store.

    The operator reads the store with one identity for all tenants, so this policy and the isolation gate are all that
    separates them. An object that is being deleted is exempt: the operator must be able to remove its finalizer, even
    if the declared store has changed since.
    """
    place = cluster.get_singleton(Cluster)
    store = place.model.spec.secret_store if place is not None else None
    if store is None:
        return []
    tenant = "object.metadata.namespace.substring(2)"  # the namespace is t-<tenant>
    validations = [
        (
            "object.spec.?secretStoreRef.?kind.orValue('') == 'ClusterSecretStore'"
            f" && object.spec.?secretStoreRef.?name.orValue('') == '{store.name}'",
            "A tenant's ExternalSecret reads only the secret store that the cluster declares.",
        ),
        (
            "object.metadata.namespace != 't-data' && object.spec.?data.orValue([]).all(entry, !has(entry.sourceRef)"
            f" && entry.remoteRef.key.startsWith('{store.prefix}/' + {tenant} + '/')"
            f" && entry.remoteRef.key.matches('{_STORE_PATH}'))",
            "A tenant's ExternalSecret reads only below the tenant's own path.",
        ),
        (
            "!has(object.spec.dataFrom) && !object.spec.?target.?template.hasValue()"
            " && !object.spec.?target.?manifest.hasValue()",
            "A tenant's ExternalSecret has neither dataFrom nor a template.",
        ),
        (
            "object.metadata.name.endsWith('--secret')"
            " && object.spec.?target.?name.orValue('') == object.metadata.name",
            "A tenant's ExternalSecret writes only the Secret with its own name.",
        ),
    ]
    return build_policy(
        _NAME,
        [build_resource_rule(["external-secrets.io"], ["v1"], ["CREATE", "UPDATE"], ["externalsecrets"])],
        {"matchExpressions": [{"key": names.TENANT, "operator": "Exists"}]},
        [{"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}],
        [{"expression": expression, "message": message} for expression, message in validations],
    )
