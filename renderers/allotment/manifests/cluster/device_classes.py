"""Render a DeviceClass for each kind of device that Kubernetes allocates on a cluster's node pools (DRA).

Each class has its own extended resource (`extendedResourceName`, beta and on by default since Kubernetes 1.36). A pod
requests a device by the name of this resource, as it requests any GPU, and a ResourceQuota can limit the resource. The
DRA driver has its own class for whole GPUs, with the resource nvidia.com/gpu. Nodes with a device plugin also offer
nvidia.com/gpu, so our classes have resources with names that no device plugin uses.
"""

from __future__ import annotations

from typing import Any

from allotment.capacity.units import dra_resource
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names

_DRIVER = "gpu.nvidia.com"
_ATTRIBUTES = f"device.attributes['{_DRIVER}']"


def render(cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the DeviceClasses of a cluster's pools, sorted by name; empty if no pool uses DRA."""
    profiles: set[str | None] = set()
    for pool in cluster.of_kind(NodePool).values():
        sharing = pool.model.spec.sharing
        if sharing is not None and sharing.dra is not None:
            profiles.update(sharing.dra.devices or (None,))
    return [_build_device_class(profile) for profile in sorted(profiles, key=lambda profile: profile or "")]


def _build_device_class(profile: str | None) -> dict[str, Any]:
    resource = dra_resource(profile)
    conditions = [f"device.driver == '{_DRIVER}'", f"{_ATTRIBUTES}.type == '{'gpu' if profile is None else 'mig'}'"]
    if profile is not None:
        conditions.append(f"{_ATTRIBUTES}.profile == '{profile}'")
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {
            "name": f"{names.PROGRAM_NAME}-{resource.partition('/')[2]}",
            "labels": names.labels(),
            "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
        },
        "spec": {
            "selectors": [{"cel": {"expression": " && ".join(conditions)}}],
            "extendedResourceName": resource,
        },
    }
