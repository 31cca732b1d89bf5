"""Checks Karpenter's NodePools, and compares Karpenter's feature gates with the gates that the Cluster declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from allotment.declared.inventory import Catalog, ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool
from allotment.diagnosis.cluster_snapshot import (
    KARPENTER_DEPLOYMENTS,
    KARPENTER_NODE_POOLS,
    NODE_OVERLAYS,
    ClusterSnapshot,
    NotReadable,
    Object,
    condition_text,
    find_condition,
    index_by_name,
    name_of,
)
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.manifests import names
from allotment.manifests.cluster.node_pool import has_overlays

_GATE_SETTING = re.compile(r"\bNodeOverlay=(true|false)\b", re.IGNORECASE)
_CHART_SETTING = "settings.featureGates.nodeOverlay in the values of Karpenter's chart"


def check_pools(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of each pool: whether Karpenter's NodePool for it exists and is Ready. Raises NotReadable."""
    karpenter_pools = _karpenter_pools(cluster)
    if not karpenter_pools:
        return
    node_pools = index_by_name(snapshot.list_objects(KARPENTER_NODE_POOLS))
    for name in karpenter_pools:
        subject = f"karpenter.sh NodePool {name}"
        if name not in node_pools:
            advice = f"let Argo CD sync the Application {names.platform_application('node-pools', cluster.name)}"
            yield error(subject, "doesn't exist, so Karpenter buys no node for its Stocks", advice)
            continue
        ready = find_condition(node_pools[name].get("status", {}).get("conditions"), "Ready")
        if ready.get("status") == "False":
            yield error(
                subject, f"isn't Ready: {condition_text(ready)}", f"kubectl describe nodepools.karpenter.sh {name}"
            )
        elif not ready:
            yield warning(
                subject, "has no condition Ready: Karpenter has not processed it", "check that Karpenter runs"
            )
        else:
            yield ok(subject, "is Ready")


def check_gates(snapshot: ClusterSnapshot, catalog: Catalog, cluster: ScopeDeclarations) -> Iterator[Diagnosis]:
    """Yield a diagnosis of the feature gate NodeOverlay, which must be on if and only if it is declared.

    If the gate is off, the status of every overlay stays empty, so an overlay with a status shows that the gate is on.
    If no overlay has a status, the settings in Karpenter's Deployment decide.

    Also yields an error for each overlay of a declared pool if the overlay isn't Ready. Raises NotReadable.
    """
    if not _karpenter_pools(cluster):
        return
    declared, subject = has_overlays(cluster), "feature gate NodeOverlay"
    is_on = _is_gate_on(snapshot)
    if is_on is None:
        yield skipped(
            subject,
            "no NodeOverlay has a status, and no Deployment with the label app.kubernetes.io/name=karpenter shows the setting",
        )
    elif declared and not is_on:
        yield error(
            subject,
            "is off, but spec.karpenter.featureGates names it: pools with slices never grow",
            f"set {_CHART_SETTING}, or remove it from featureGates",
        )
    elif is_on and not declared:
        yield warning(
            subject,
            "is on, but spec.karpenter.featureGates doesn't name it: pools with slices can't be declared to grow",
            "write featureGates: [NodeOverlay]",
        )
    else:
        yield ok(subject, f"is {'on' if is_on else 'off'}, as declared")
    for overlay in _list_overlays(snapshot):
        ready = find_condition(overlay.get("status", {}).get("conditions"), "Ready")
        if ready.get("status") == "False" and name_of(overlay) in _karpenter_pools(cluster):
            advice = f"kubectl describe nodeoverlays {name_of(overlay)}"
            yield error(f"NodeOverlay {name_of(overlay)}", f"isn't Ready: {condition_text(ready)}", advice)


def _is_gate_on(snapshot: ClusterSnapshot) -> bool | None:
    """Return whether the gate is on; None if that is not known. Raises NotReadable."""
    overlays = _list_overlays(snapshot)
    if any(overlay.get("status", {}).get("conditions") for overlay in overlays):
        return True
    gate_texts = [
        words for deployment in snapshot.list_objects(KARPENTER_DEPLOYMENTS) for words in _gate_args(deployment)
    ]
    for words in gate_texts:
        if match := _GATE_SETTING.search(words):
            return match[1].lower() == "true"
    return False if gate_texts or overlays else None


def _list_overlays(snapshot: ClusterSnapshot) -> list[Object]:
    """Return the overlays; an empty list if the API server doesn't serve NodeOverlays."""
    try:
        return snapshot.list_objects(NODE_OVERLAYS)
    except NotReadable as unseen:
        if unseen.missing_permission or unseen.failed:
            raise
        return []


def _gate_args(deployment: Object) -> Iterable[str]:
    """Yield the feature gate setting of each Karpenter container; an empty text if a container has no such setting."""
    for container in deployment["spec"]["template"]["spec"].get("containers", ()):
        gates = [str(each.get("value", "")) for each in container.get("env", ()) if each["name"] == "FEATURE_GATES"]
        yield from [*gates, *(word for word in container.get("args", ()) if "feature-gates" in word)] or [""]


def _karpenter_pools(cluster: ScopeDeclarations) -> list[str]:
    return [name for name, pool in cluster.of_kind(NodePool).items() if pool.model.spec.karpenter is not None]
