"""Build the node class from which Karpenter creates a pool's nodes.

`_SPEC_BUILDERS` lists the kinds of node classes that we render. On other clouds, somebody else manages the node class,
and the declaration of the pool refers to the node class by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from allotment.declared.kinds.declaration import StrictModel
from allotment.declared.kinds.node_pool import Ec2, Karpenter


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


def build_node_class(pool: str, karpenter: Karpenter) -> NodeClass:
    """Return the node class of a pool: built from `karpenter`, or the existing class to which `karpenter` refers."""
    if karpenter.node_class_ref is not None:
        named = karpenter.node_class_ref
        return NodeClass(named.group, "", named.kind, named.name, None)
    assert karpenter.chosen_member is not None
    group, version, kind, spec = _SPEC_BUILDERS[karpenter.chosen_member]
    return NodeClass(group, version, kind, pool, spec(getattr(karpenter, karpenter.chosen_member)))


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
