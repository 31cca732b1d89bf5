"""Render the NVIDIA device plugin's configurations for a cluster's node pools, one for each way of sharing."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.declared.kinds.sharing import EXCLUSIVE_CONFIG, PoolSharing, device_plugin_config
from allotment.manifests import names
from allotment.manifests.yaml_text import dump


def node_labels(pool: NodePoolSpec) -> dict[str, str]:
    """Return the node labels that configure GPU sharing; under DRA, the label that disables the device plugin."""
    key = device_plugin_config(pool.sharing)
    if key is None:
        return {names.DEVICE_PLUGIN_DEPLOYED: "false"}
    labels = {names.DEVICE_PLUGIN_CONFIG: key}
    if pool.sharing is not None and pool.sharing.mig is not None:
        labels[names.MIG_CONFIG] = pool.sharing.mig.config
    if pool.sharing is not None and pool.sharing.mps is not None:
        labels[names.MPS_CAPABLE] = "true"  # the MPS daemon runs on nodes with this label
    return labels


def render(cluster: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the ConfigMap with the configurations.

    Each key of the ConfigMap has one configuration. The label `nvidia.com/device-plugin.config` of a node selects a
    key. The plugin's setting `config.default` should name the key `exclusive`, because the setting applies to nodes
    without the label.
    """
    data = {EXCLUSIVE_CONFIG: _build_config(None)}
    for pool in cluster.of_kind(NodePool).values():
        sharing = pool.model.spec.sharing
        if (key := device_plugin_config(sharing)) is not None:
            data[key] = _build_config(sharing)
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "allotment",
                "namespace": names.DEVICE_PLUGIN_NAMESPACE,
                "labels": names.labels(),
                "annotations": {names.SYNC_OPTIONS: names.KEEP_ON_APPLICATION_DELETION},
            },
            "data": dict(sorted(data.items())),
        }
    ]


def _build_config(sharing: PoolSharing | None) -> str:
    """Return the configuration for a way of sharing.

    The plugin refuses a configuration with two ways of sharing, with fewer than 2 replicas, or with both MPS and MIG
    (NVIDIA/k8s-device-plugin, api/config/v1/replicas.go and cmd/nvidia-device-plugin/main.go). Validation refuses
    declarations that would render to such a configuration.
    """
    is_mig = sharing is not None and sharing.mig is not None
    config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": "mixed" if is_mig else "none"}}
    for member, shared in (("timeSlicing", sharing and sharing.time_slicing), ("mps", sharing and sharing.mps)):
        if shared:
            config["sharing"] = {
                member: {
                    "renameByDefault": True,
                    "failRequestsGreaterThanOne": True,
                    "resources": [{"name": "nvidia.com/gpu", "replicas": shared.replicas}],
                }
            }
    return dump([config]).decode()
