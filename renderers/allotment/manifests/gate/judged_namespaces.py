"""What the gate lets a tenant's namespace, and what isolates it, be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.manifests import names
from allotment.manifests.gate.boundary import Boundary
from allotment.manifests.gate.judged_fields import identity, let_go, only, same
from allotment.manifests.tenant import disruption
from allotment.manifests.text import Object

_NAMESPACE_API = {
    "LimitRange": "v1",
    "Namespace": "v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "ReferenceGrant": "gateway.networking.k8s.io/v1",
    "ResourceQuota": "v1",
}
_OPENINGS = {"share": "ingress", "read": "egress", "buckets": "egress"}


def judge_isolation_object(boundary: Boundary, tenant: str, manifest: Object) -> Iterator[str]:
    """Yield what is wrong with an object of a tenant's namespace file."""
    yield from identity(manifest, _NAMESPACE_API)
    kind, metadata, space = manifest.get("kind"), manifest.get("metadata", {}), names.namespace(tenant)
    opened = kind == "NetworkPolicy" and "--" in str(metadata.get("name"))
    if opened:
        yield from _judge_opening(metadata, manifest.get("spec", {}))
    elif kind == "PodDisruptionBudget":
        yield from _judge_budget(manifest)
    elif not let_go(metadata.get("annotations", {})):
        yield from same("sync-options", metadata.get("annotations", {}).get(names.SYNC_OPTIONS), names.KEEP)
    if kind == "Namespace":
        yield from same("metadata.name", metadata.get("name"), space)
        yield from same(
            "Pod Security", metadata.get("labels", {}).get("pod-security.kubernetes.io/enforce"), "restricted"
        )
    elif kind == "ReferenceGrant":
        yield from same("metadata.namespace", metadata.get("namespace"), boundary.secret_namespace)
        sources = [(source.get("kind"), source.get("namespace")) for source in manifest.get("spec", {}).get("from", ())]
        yield from same("from", sources, [("SecurityPolicy", space)])
        yield from same("to", [target.get("kind") for target in manifest.get("spec", {}).get("to", ())], ["Secret"])
    else:
        yield from same("metadata.namespace", metadata.get("namespace"), space)


def _judge_budget(manifest: Object) -> Iterator[str]:
    """A budget of instances, which lets one of several copies go at most; the one of all stays with the namespace."""
    metadata, spec = manifest.get("metadata", {}), manifest.get("spec", {})
    of_all = metadata.get("name") == disruption.ALL
    if of_all and not let_go(metadata.get("annotations", {})):
        yield from same("sync-options", metadata.get("annotations", {}).get(names.SYNC_OPTIONS), names.KEEP)
    yield from only("spec", spec, frozenset(("maxUnavailable" if of_all else "minAvailable", "selector")))
    if of_all:
        yield from same("maxUnavailable", spec.get("maxUnavailable"), 0)
    selector = spec.get("selector", {})
    chosen = [expression.get("key") for expression in selector.get("matchExpressions", ())] + list(
        selector.get("matchLabels", ())
    )
    yield from same("selector", set(chosen), {names.INSTANCE})


def _judge_opening(metadata: Any, spec: Any) -> Iterator[str]:
    """What a policy opens besides the namespace's own: files for copies, to or from one kind of pod; a store for
    instances."""
    yield from only("metadata", metadata, frozenset(("name", "namespace", "labels", "annotations")))
    allowed = frozenset((names.SYNC_OPTIONS, names.PROTECTED))  # the values are judged as everybody's
    yield from only("metadata.annotations", metadata.get("annotations", {}), allowed)
    chosen = spec.get("podSelector", {}).get("matchLabels", {})
    way = str(metadata.get("name")).partition("--")[0]
    yield from only("spec", spec, frozenset(("podSelector", "policyTypes", _OPENINGS.get(way, ""))))
    if way == "buckets":
        yield from same("podSelector", list(chosen), [names.INSTANCE])
        return
    yield from same("podSelector role", chosen.get(names.ROLE), names.FILES_ROLE if way == "share" else names.COPY_ROLE)
    other = names.COPY_ROLE if way == "share" else names.FILES_ROLE
    for rule in spec.get(_OPENINGS.get(way, ""), ({},)):
        yield from only("rule", rule, frozenset(("from", "to", "ports")))
        yield from same("ports", [port.get("port") for port in rule.get("ports", ())], [names.FILES_PORT])
        for peer in rule.get("from", []) + rule.get("to", []):
            yield from only("peer", peer, frozenset(("namespaceSelector", "podSelector")))
            role = peer.get("podSelector", {}).get("matchLabels", {}).get(names.ROLE)
            yield from same("peer's role", role, other)
