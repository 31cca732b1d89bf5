"""Placeholder Deployments of a stock."""

from __future__ import annotations

from typing import Any

from tests.support import live

SPEC = "l4-quarter"


def placeholder(name: str, count: int, owner: str = "", *, pool: str = "", **labels: str) -> dict[str, Any]:
    """Return the Deployment of a stock in a pool whose nodes have these labels."""
    deployment = live.deployment(name, units=str(count), reserved_for=owner, node_pool=pool)
    deployment["metadata"]["namespace"] = "allotment-stock"
    deployment["metadata"]["labels"] = {"allotment.dev/stock": name, "allotment.dev/gpu-spec": SPEC}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    terms = [{"matchExpressions": expressions}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    deployment["spec"]["template"]["spec"] |= {"affinity": affinity} if labels else {}
    return deployment
