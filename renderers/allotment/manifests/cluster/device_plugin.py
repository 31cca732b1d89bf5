"""A cluster's node pools → the NVIDIA device plugin's configurations, one a way of sharing."""

from __future__ import annotations

from typing import Any

from allotment.declared.inventory import Folder
from allotment.declared.kinds.node_pool import NodePool, NodePoolSpec
from allotment.manifests import names
from allotment.manifests.text import dump

DEFAULT = "exclusive"


def config_key(pool: NodePoolSpec) -> str:
    """Return the key of a pool's configuration, the value of its nodes' label."""
    if pool.sharing is None:
        return DEFAULT
    if pool.sharing.time_slicing is not None:
        return f"time-slicing-{pool.sharing.time_slicing.replicas}"
    return "mig"


def node_labels(pool: NodePoolSpec) -> dict[str, str]:
    """Return the labels that choose a pool's sharing on its nodes."""
    labels = {names.DEVICE_PLUGIN_CONFIG: config_key(pool)}
    if pool.sharing is not None and pool.sharing.mig is not None:
        labels[names.MIG_CONFIG] = pool.sharing.mig.config
    return labels


def render(cluster: Folder) -> list[dict[str, Any]]:
    """Return the ConfigMap. Its keys are what `nvidia.com/device-plugin.config` may be; `exclusive` is for
    `config.default`."""
    data = {DEFAULT: _config("none", None)}
    for pool in cluster.of(NodePool).values():
        sharing = pool.model.spec.sharing
        slices = sharing.time_slicing.replicas if sharing and sharing.time_slicing else None
        data[config_key(pool.model.spec)] = _config("mixed" if sharing and sharing.mig else "none", slices)
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "allotment",
                "namespace": names.DEVICE_PLUGIN_NAMESPACE,
                "labels": names.labels(),
                "annotations": {names.SYNC_OPTIONS: names.OUTLIVE},
            },
            "data": dict(sorted(data.items())),
        }
    ]


def _config(mig_strategy: str, slices: int | None) -> str:
    config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": mig_strategy}}
    if slices is not None:
        config["sharing"] = {
            "timeSlicing": {
                "renameByDefault": True,
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": "nvidia.com/gpu", "replicas": slices}],
            }
        }
    return dump([config]).decode()
