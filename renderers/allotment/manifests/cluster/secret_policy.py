"""Render the admission policy that keeps the ExternalSecrets of each tenant below the tenant's own path."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.secret_stores import DOCKER_CONFIG_KEY
from allotment.manifests import names
from allotment.manifests.cluster.foundation import build_policy, build_resource_rule

_NAME = "allotment-tenant-secrets"
# A template that sets only the type, with the defaults of the CRD. Another type could be the token of a ServiceAccount.
_PULL_TEMPLATE = (
    "object.spec.?target.?template.?type.orValue('') == 'kubernetes.io/dockerconfigjson'"
    " && object.spec.?target.?template.?engineVersion.orValue('v2') == 'v2'"
    " && object.spec.?target.?template.?mergePolicy.orValue('Replace') == 'Replace'"
    " && !object.spec.?target.?template.?data.hasValue() && !object.spec.?target.?template.?templateFrom.hasValue()"
    " && !object.spec.?target.?template.?metadata.hasValue()"
)
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
    path = (
        "object.metadata.namespace != 't-data' && object.spec.?data.orValue([]).all(entry, !has(entry.sourceRef)"
        f" && entry.remoteRef.key.startsWith('{store.prefix}/' + {tenant} + '/')"
        f" && entry.remoteRef.key.matches('{_STORE_PATH}'))"
    )
    name = "object.metadata.name.endsWith('--secret') || object.metadata.name.endsWith('--image-pull')"
    if store.image_pull is not None:
        platform = f"object.metadata.name == '{names.PLATFORM_PULL_SECRET}'"
        path = (
            f"{platform} ? object.spec.?data.orValue([]).all(entry, !has(entry.sourceRef)"
            f" && entry.remoteRef.key == '{store.image_pull.path}'"
            f" && entry.remoteRef.?property.orValue('') == '{store.image_pull.property_ or ''}') : ({path})"
        )
        name = f"{name} || {platform}"
    validations = [
        (
            "object.spec.?secretStoreRef.?kind.orValue('') == 'ClusterSecretStore'"
            f" && object.spec.?secretStoreRef.?name.orValue('') == '{store.name}'",
            "A tenant's ExternalSecret reads only the secret store that the cluster declares.",
        ),
        (path, "A tenant's ExternalSecret reads only below the tenant's own path."),
        (
            "!has(object.spec.dataFrom) && !object.spec.?target.?manifest.hasValue()"
            " && (object.metadata.name.endsWith('--secret') || object.spec.?data.orValue([]).map(entry, entry.secretKey)"
            f" == ['{DOCKER_CONFIG_KEY}'])",
            "A tenant's ExternalSecret has no dataFrom, and a pull credential has one key.",
        ),
        (
            f"object.metadata.name.endsWith('--secret') ? !object.spec.?target.?template.hasValue() : {_PULL_TEMPLATE}",
            "A tenant's ExternalSecret has no template, except the type of a pull credential.",
        ),
        (
            f"({name}) && object.spec.?target.?name.orValue('') == object.metadata.name",
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
