"""Render a NodePool as Karpenter's NodePool, NodeOverlay and node class.

A static pool has no objects, because we do not manage its nodes. `_SPEC_BUILDERS` lists the kinds of node classes that we
render. On other clouds, somebody else manages the node class, and the declaration of the pool refers to the node class by
name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from allotment.capacity.units import GPU, node_resources
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.declaration import StrictModel
from allotment.declared.kinds.node_pool import Ec2, Karpenter, NodePool, NodePoolSpec
from allotment.manifests import names
from allotment.manifests.cluster import device_plugin
from allotment.manifests.yaml_text import Frozen, without_empty

# Karpenter may remove all empty nodes at once. If nodes have drifted from their NodePool or are underutilized,
# Karpenter may replace only one node at a time. Karpenter does not disrupt the node of an instance with a single
# replica, because a PodDisruptionBudget forbids the eviction. If an instance has several replicas, its
# PodDisruptionBudget allows the eviction of one replica at a time (`tenant/disruption`).
DISRUPTION_POLICY = Frozen(
    consolidationPolicy="WhenEmpty",
    consolidateAfter="10m",
    budgets=[
        {"nodes": "1", "reasons": ["Drifted", "Underutilized"]},
        {"nodes": "100%", "reasons": ["Empty"]},
    ],
)
TAINT = Frozen(key=names.GPU_TAINT, value="true", effect="NoSchedule")
CAPACITY_TYPES = {"OnDemand": "on-demand", "Spot": "spot"}


class NodeClass(NamedTuple):
    """A node class: its API group, version, kind, name and spec. The spec is None if somebody else manages the class."""

    group: str
    version: str
    kind: str
    name: str
    spec: dict[str, Any] | None

    @property
    def reference(self) -> dict[str, str]:
        """Return the value of a NodePool's `nodeClassRef`."""
        return {"group": self.group, "kind": self.kind, "name": self.name}


def render(
    _: Catalog, cluster: ScopeDeclarations, pool: DeclarationFile[NodePool], __: Mapping[tuple[str, str], int]
) -> list[dict[str, Any]]:
    """Return a Karpenter pool's objects.

    The NodePool has a limit on each GPU resource that pods request: the amount of this resource on `maxNodes` nodes. A
    limit on `nodes` would not suffice, because Karpenter exceeds such a limit when many pods arrive at once. A limit on
    `nvidia.com/gpu` would not suffice either: if the device plugin renames this resource, Karpenter ignores the limit.
    """
    spec, name = pool.model.spec, pool.model.name
    if spec.karpenter is None:
        return []
    made_of = build_node_class(name, spec.karpenter)
    limits = {
        resource: str(amount * spec.karpenter.max_nodes) for resource, amount in sorted(node_resources(spec).items())
    }
    objects = [
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": _build_metadata(name),
            "spec": {
                "template": _build_template(name, spec, spec.karpenter, made_of),
                "limits": limits,
                "disruption": DISRUPTION_POLICY,
            },
        },
    ]
    if has_overlays(cluster):
        objects.append(_build_overlay(name, spec))
    if made_of.spec is not None:
        api_version = f"{made_of.group}/{made_of.version}"
        objects.append(
            {"apiVersion": api_version, "kind": made_of.kind, "metadata": _build_metadata(name), "spec": made_of.spec}
        )
    return objects


def has_overlays(cluster: ScopeDeclarations) -> bool:
    """Return whether the cluster's Karpenter reads NodeOverlays. By default, the feature gate NodeOverlay is off."""
    place = cluster.get_singleton(Cluster)
    return place is not None and "NodeOverlay" in place.model.spec.karpenter.feature_gates


def build_node_class(pool: str, karpenter: Karpenter) -> NodeClass:
    """Return the node class of a pool: built from `karpenter`, or the existing class to which `karpenter` refers."""
    if karpenter.node_class_ref is not None:
        named = karpenter.node_class_ref
        return NodeClass(named.group, "", named.kind, named.name, None)
    assert karpenter.chosen_member is not None
    group, version, kind, spec = _SPEC_BUILDERS[karpenter.chosen_member]
    return NodeClass(group, version, kind, pool, spec(getattr(karpenter, karpenter.chosen_member)))


def _build_template(name: str, spec: NodePoolSpec, karpenter: Karpenter, made_of: NodeClass) -> dict[str, Any]:
    """Return the template of the pool's nodes. After any change of the template, Karpenter replaces all nodes (drift).

    The template sets no `terminationGracePeriod`, because Karpenter would evict pods after this time despite their
    PodDisruptionBudgets.
    """
    requirements: list[dict[str, Any]] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [CAPACITY_TYPES[spec.capacity_type]]}
    ]
    requirements += [
        without_empty({"key": requirement.key, "operator": requirement.operator, "values": list(requirement.values)})
        for requirement in sorted(
            karpenter.requirements, key=lambda requirement: (requirement.key, requirement.operator)
        )
    ]
    generation = {} if spec.generation is None else {names.GENERATION: str(spec.generation)}
    return {
        "metadata": {
            "labels": {
                names.POOL: name,
                **generation,
                "nvidia.com/gpu.present": "true",
                **device_plugin.node_labels(spec),
            }
        },
        "spec": {
            "nodeClassRef": made_of.reference,
            "requirements": requirements,
            "taints": [TAINT],
            "expireAfter": "Never" if karpenter.expire_after is None else _format_hours(karpenter.expire_after),
        },
    }


def _build_overlay(name: str, spec: NodePoolSpec) -> dict[str, Any]:
    """Return the overlay: the resources that a node has after the device plugin has divided the node's GPUs.

    If the plugin renames `nvidia.com/gpu`, a node has 0 of this resource.
    """
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": _build_metadata(name),
        "spec": {
            "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": [name]}],
            "capacity": {
                resource: str(amount) for resource, amount in sorted({GPU: 0, **node_resources(spec)}.items())
            },
        },
    }


def _build_metadata(name: str) -> dict[str, Any]:
    """Return the metadata of a pool's objects. If somebody deletes their Application, Argo CD keeps the objects.

    If the NodePool were deleted, Karpenter would delete all nodes of the pool with their pods.
    """
    return {
        "name": name,
        "labels": names.labels(),
        "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
    }


def _format_hours(seconds: int) -> str:
    hours, remainder = divmod(seconds, 3600)
    return f"{hours}h" if not remainder else f"{seconds}s"


def _build_ec2_spec(ec2: Ec2) -> dict[str, Any]:
    return {
        "role": ec2.role,
        "amiFamily": ec2.ami_family,
        "amiSelectorTerms": _build_selector_terms(ec2.ami_selector_terms),
        "subnetSelectorTerms": _build_selector_terms(ec2.subnet_selector_terms),
        "securityGroupSelectorTerms": _build_selector_terms(ec2.security_group_selector_terms),
    }


def _build_selector_terms(terms: Sequence[StrictModel]) -> list[dict[str, Any]]:
    return [term.model_dump(by_alias=True, exclude_none=True) for term in terms]


# Maps a field of NodePool.spec.karpenter to the API group, the version, the kind and the function that builds the spec.
_SPEC_BUILDERS: dict[str, tuple[str, str, str, Callable[[Any], dict[str, Any]]]] = {
    "ec2": ("karpenter.k8s.aws", "v1", "EC2NodeClass", _build_ec2_spec),
}
