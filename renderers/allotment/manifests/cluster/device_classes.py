"""A cluster's node pools → a DeviceClass a kind of device that Kubernetes itself hands out there (DRA).

Each has an extended resource of its own, by which pods ask for a device as for any GPU, and by which a ResourceQuota counts
(`extendedResourceName`, beta and on since Kubernetes 1.36). The driver's own class gives whole GPUs the name nvidia.com/gpu,
which nodes with a device plugin have too: ours are names that no plugin has.
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
    """Return the DeviceClasses of a cluster's pools, by name; none where no pool is of DRA."""
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
