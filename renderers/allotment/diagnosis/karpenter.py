"""Karpenter's NodePools, and its feature gates against those that the Cluster declares, both ways."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.node_pool import NodePool
from allotment.diagnosis.diagnosis import Diagnosis, error, ok, skipped, warning
from allotment.diagnosis.looked import (
    KARPENTERS,
    OVERLAYS,
    POOLS,
    Looked,
    Object,
    Unseen,
    by_name,
    condition,
    name_of,
    said,
)
from allotment.manifests import names
from allotment.manifests.cluster.node_pool import has_overlays

_GATE = re.compile(r"\bNodeOverlay=(true|false)\b", re.IGNORECASE)
_SWITCH = "settings.featureGates.nodeOverlay in the values of Karpenter's chart"


def check_pools(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether Karpenter has each pool, and can buy nodes for it."""
    wanted = _bought(cluster)
    if not wanted:
        return
    node_pools = by_name(looked.all(POOLS))
    for name in wanted:
        subject = f"karpenter.sh NodePool {name}"
        if name not in node_pools:
            advice = f"let Argo CD sync the Application {names.platform_application('node-pools', cluster.name)}"
            yield error(subject, "isn't there: no node is bought for its Stocks", advice)
            continue
        ready = condition(node_pools[name].get("status", {}).get("conditions"), "Ready")
        if ready.get("status") == "False":
            yield error(subject, f"isn't Ready: {said(ready)}", f"kubectl describe nodepools.karpenter.sh {name}")
        elif not ready:
            yield warning(subject, "has no condition Ready: no Karpenter has looked at it", "check that Karpenter runs")
        else:
            yield ok(subject, "is Ready")


def check_gates(looked: Looked, offers: Offers, cluster: Folder) -> Iterator[Diagnosis]:
    """Yield whether the gate NodeOverlay is on exactly where it is declared: by the status of our overlays, which stays empty
    where it is off, else by what Karpenter's Deployment is told."""
    if not _bought(cluster):
        return
    declared, subject = has_overlays(cluster), "feature gate NodeOverlay"
    is_on = _is_on(looked)
    if is_on is None:
        yield skipped(
            subject,
            "no NodeOverlay has a status, and no Deployment with the label app.kubernetes.io/name=karpenter says it",
        )
    elif declared and not is_on:
        yield error(
            subject,
            "is off, and spec.karpenter.featureGates names it: pools of slices never grow",
            f"set {_SWITCH}, or remove it from featureGates",
        )
    elif is_on and not declared:
        yield warning(
            subject,
            "is on, and spec.karpenter.featureGates doesn't name it: no pool of slices may grow",
            "write featureGates: [NodeOverlay]",
        )
    else:
        yield ok(subject, f"is {'on' if is_on else 'off'}, as declared")
    for overlay in _overlays(looked):
        ready = condition(overlay.get("status", {}).get("conditions"), "Ready")
        if ready.get("status") == "False" and name_of(overlay) in _bought(cluster):
            advice = f"kubectl describe nodeoverlays {name_of(overlay)}"
            yield error(f"NodeOverlay {name_of(overlay)}", f"isn't Ready: {said(ready)}", advice)


def _is_on(looked: Looked) -> bool | None:
    """Return whether the gate is on; None where nothing says it. Raises Unseen where rights are missing."""
    overlays = _overlays(looked)
    if any(overlay.get("status", {}).get("conditions") for overlay in overlays):
        return True
    gate_texts = [words for deployment in looked.all(KARPENTERS) for words in _told(deployment)]
    for words in gate_texts:
        if match := _GATE.search(words):
            return match[1].lower() == "true"
    return False if gate_texts or overlays else None


def _overlays(looked: Looked) -> list[Object]:
    """Return the overlays; none where the cluster doesn't serve them."""
    try:
        return looked.all(OVERLAYS)
    except Unseen as unseen:
        if unseen.right or unseen.failed:
            raise
        return []


def _told(deployment: Object) -> Iterable[str]:
    """Yield what Karpenter's containers are told of gates; an empty text where they are told nothing."""
    for container in deployment["spec"]["template"]["spec"].get("containers", ()):
        gates = [str(each.get("value", "")) for each in container.get("env", ()) if each["name"] == "FEATURE_GATES"]
        yield from [*gates, *(word for word in container.get("args", ()) if "feature-gates" in word)] or [""]


def _bought(cluster: Folder) -> list[str]:
    return [name for name, pool in cluster.of(NodePool).items() if pool.model.spec.karpenter is not None]
