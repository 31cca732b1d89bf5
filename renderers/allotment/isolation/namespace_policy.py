"""Check a tenant's namespace and the objects that isolate it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.isolation.boundary import Boundary
from allotment.isolation.field_policy import check_allowed_keys, check_equal, check_identity, is_released
from allotment.isolation.secret_policy import judge_platform_pull_secret, judge_service_account
from allotment.manifests import names
from allotment.manifests.tenant import disruption
from allotment.manifests.yaml_text import Object

_NAMESPACE_API = {
    "ConfigMap": "v1",
    "ExternalSecret": "external-secrets.io/v1",
    "LimitRange": "v1",
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "ReferenceGrant": "gateway.networking.k8s.io/v1",
    "ResourceQuota": "v1",
    "RoleBinding": "rbac.authorization.k8s.io/v1",
    "ServiceAccount": "v1",
}
_SSH_KINDS = ("ConfigMap", "RoleBinding")
_SSH_NAME = "allot-ssh"
_SSH_DATA = frozenset(("authorized_keys", "instances", "allowed_cidrs"))
# Some NetworkPolicies open a tenant's namespace to another namespace. `_OPENINGS` maps the prefix of the name of
# such a policy to the field with its rules.
_OPENINGS = {"share": "ingress", "read": "egress", "buckets": "egress"}


def judge_isolation_object(boundary: Boundary, tenant: str, manifest: Object) -> Iterator[str]:
    """Yield the violations in an object of a tenant's namespace file."""
    yield from check_identity(manifest, _NAMESPACE_API)
    kind, metadata, space = manifest.get("kind"), manifest.get("metadata", {}), names.namespace(tenant)
    opened = kind == "NetworkPolicy" and "--" in str(metadata.get("name"))
    if opened:
        yield from _judge_opening_policy(metadata, manifest.get("spec", {}))
    elif kind == "PodDisruptionBudget":
        yield from _judge_disruption_budget(manifest)
    elif kind in _SSH_KINDS:
        yield from _judge_ssh_object(manifest)
    elif kind == "ServiceAccount":
        yield from judge_service_account(manifest)
    elif kind == "ExternalSecret":
        yield from judge_platform_pull_secret(boundary.secret_store, metadata, manifest.get("spec", {}))
    elif not is_released(metadata.get("annotations", {})):
        yield from check_equal(
            "sync-options", metadata.get("annotations", {}).get(names.SYNC_OPTIONS), names.KEEP_OPTIONS
        )
    if kind == "Namespace":
        yield from check_equal("metadata.name", metadata.get("name"), space)
        yield from check_equal(
            "Pod Security", metadata.get("labels", {}).get("pod-security.kubernetes.io/enforce"), "restricted"
        )
    elif kind == "ReferenceGrant":
        yield from check_equal("metadata.namespace", metadata.get("namespace"), boundary.secret_namespace)
        sources = [(source.get("kind"), source.get("namespace")) for source in manifest.get("spec", {}).get("from", ())]
        yield from check_equal("from", sources, [("SecurityPolicy", space)])
        yield from check_equal(
            "to", [target.get("kind") for target in manifest.get("spec", {}).get("to", ())], ["Secret"]
        )
    else:
        yield from check_equal("metadata.namespace", metadata.get("namespace"), space)


def _judge_ssh_object(manifest: Object) -> Iterator[str]:
    """Yield the violations of an object for the SSH gateway. Its RoleBinding grants nothing to anybody else."""
    yield from check_equal("metadata.name", manifest.get("metadata", {}).get("name"), _SSH_NAME)
    if manifest.get("kind") == "ConfigMap":
        yield from check_allowed_keys("data", manifest.get("data"), _SSH_DATA)
        return
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "allotment-ssh"}
    yield from check_equal("roleRef", manifest.get("roleRef"), role)
    subject = {"kind": "ServiceAccount", "name": _SSH_NAME, "namespace": "allotment"}
    yield from check_equal("subjects", manifest.get("subjects"), [subject])


def _judge_disruption_budget(manifest: Object) -> Iterator[str]:
    """Yield the violations of a PodDisruptionBudget, which must select instances.

    A PodDisruptionBudget that selects all instances must allow no eviction, and must have the options that keep Argo CD
    from deleting it. The PodDisruptionBudget of an instance with several replicas may limit evictions by `minAvailable`
    only.
    """
    metadata, spec = manifest.get("metadata", {}), manifest.get("spec", {})
    of_all = metadata.get("name") == disruption.ALL_INSTANCES_BUDGET
    if of_all and not is_released(metadata.get("annotations", {})):
        yield from check_equal(
            "sync-options", metadata.get("annotations", {}).get(names.SYNC_OPTIONS), names.KEEP_OPTIONS
        )
    yield from check_allowed_keys("spec", spec, frozenset(("maxUnavailable" if of_all else "minAvailable", "selector")))
    if of_all:
        yield from check_equal("maxUnavailable", spec.get("maxUnavailable"), 0)
    selector = spec.get("selector", {})
    chosen = [expression.get("key") for expression in selector.get("matchExpressions", ())] + list(
        selector.get("matchLabels", ())
    )
    yield from check_equal("selector", set(chosen), {names.INSTANCE})


def _judge_opening_policy(metadata: Any, spec: Any) -> Iterator[str]:
    """Yield the violations of a NetworkPolicy that opens a tenant's namespace to another namespace.

    A `share` or `read` policy must allow traffic only between file servers and pods that copy from them. A `buckets`
    policy must select an instance.
    """
    yield from check_allowed_keys("metadata", metadata, frozenset(("name", "namespace", "labels", "annotations")))
    allowed = frozenset((names.SYNC_OPTIONS, names.PROTECTED))  # `published_policy` checks the sync options
    yield from check_allowed_keys("metadata.annotations", metadata.get("annotations", {}), allowed)
    chosen = spec.get("podSelector", {}).get("matchLabels", {})
    way = str(metadata.get("name")).partition("--")[0]
    yield from check_allowed_keys("spec", spec, frozenset(("podSelector", "policyTypes", _OPENINGS.get(way, ""))))
    if way == "buckets":
        yield from check_equal("podSelector", list(chosen), [names.INSTANCE])
        return
    yield from check_equal(
        "podSelector role", chosen.get(names.ROLE), names.FILES_ROLE if way == "share" else names.COPY_ROLE
    )
    other = names.COPY_ROLE if way == "share" else names.FILES_ROLE
    for rule in spec.get(_OPENINGS.get(way, ""), ({},)):
        yield from check_allowed_keys("rule", rule, frozenset(("from", "to", "ports")))
        yield from check_equal("ports", [port.get("port") for port in rule.get("ports", ())], [names.FILES_PORT])
        for peer in rule.get("from", []) + rule.get("to", []):
            yield from check_allowed_keys("peer", peer, frozenset(("namespaceSelector", "podSelector")))
            role = peer.get("podSelector", {}).get("matchLabels", {}).get(names.ROLE)
            yield from check_equal("peer's role", role, other)
