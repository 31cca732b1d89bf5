"""NodePool → Karpenter's NodePool and EC2NodeClass. A static pool's nodes are somebody else's: nothing is rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from allotment.accounts.capacity import pack, pool_stocks
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.declaration import Strict
from allotment.declared.kinds.node_pool import Ec2, NodePool
from allotment.manifests import names
from allotment.manifests.cluster import device_plugin
from allotment.manifests.text import Fixed, present

DISRUPTION = Fixed(consolidationPolicy="WhenEmpty", consolidateAfter="10m", budgets=[{"nodes": "1"}])
TAINT = Fixed(key=names.GPU_TAINT, value="true", effect="NoSchedule")
CAPACITY_TYPES = {"OnDemand": "on-demand", "Spot": "spot"}


def render(
    offers: Offers, cluster: Folder, pool: Declared[NodePool], _: Mapping[tuple[str, str], int]
) -> list[dict[str, Any]]:
    """Return a Karpenter pool's objects. Its GPU limit is what its stocks need, so no evicted placeholder buys a node."""
    spec, name = pool.model.spec, pool.model.name
    karpenter = spec.karpenter
    if karpenter is None:
        return []
    packing = pack(spec, pool_stocks(offers, cluster, name))
    requirements: list[dict[str, Any]] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [CAPACITY_TYPES[spec.capacity_type]]}
    ]
    requirements += [
        present({"key": one.key, "operator": one.operator, "values": list(one.values)})
        for one in sorted(karpenter.requirements, key=lambda one: (one.key, one.operator))
    ]
    template = {
        "metadata": {"labels": {names.POOL: name, "nvidia.com/gpu.present": "true", **device_plugin.node_labels(spec)}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
            "requirements": requirements,
            "taints": [TAINT],
            "expireAfter": _hours(karpenter.expire_after),
        },
    }
    return [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": _metadata(name),
            "spec": {
                "template": template,
                "limits": {"nvidia.com/gpu": str(packing.nodes * spec.node.gpu.count)},
                "disruption": DISRUPTION,
            },
        },
        _node_class(name, karpenter.ec2),
    ]


def _metadata(name: str) -> dict[str, Any]:
    """A pool that goes takes its nodes along, and all that runs on them: it doesn't go with an Application."""
    return {"name": name, "labels": names.labels(), "annotations": {names.SYNC_OPTIONS: names.OUTLIVE}}


def _hours(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours}h" if not rest else f"{seconds}s"


def _node_class(name: str, ec2: Ec2) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": _metadata(name),
        "spec": {
            "role": ec2.role,
            "amiFamily": ec2.ami_family,
            "amiSelectorTerms": _terms(ec2.ami_selector_terms),
            "subnetSelectorTerms": _terms(ec2.subnet_selector_terms),
            "securityGroupSelectorTerms": _terms(ec2.security_group_selector_terms),
        },
    }


def _terms(terms: Sequence[Strict]) -> list[dict[str, Any]]:
    return [one.model_dump(by_alias=True, exclude_none=True) for one in terms]
