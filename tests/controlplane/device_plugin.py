"""NVIDIA's MIG manager and device plugin, as nodes that Karpenter bought show them: a node comes without GPUs and gets them here.

Runs as a program of its own beside Karpenter. How many GPUs a node has is its instance type's business, and what becomes of them
that of the configuration which its label names in the device plugin's ConfigMap, read from the cluster as the plugin reads it
(NVIDIA/k8s-device-plugin v0.20.0: api/config/v1, cmd/config-manager). Its DaemonSet runs on a node once that is registered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from tests.controlplane.client import Client, Object

GPU = "nvidia.com/gpu"
SHARED = ".shared"  # what `renameByDefault` puts behind a name, of time-slicing and of MPS alike
CONFIG = "nvidia.com/device-plugin.config"
MIG_CONFIG = "nvidia.com/mig.config"
MPS_CAPABLE = "nvidia.com/mps.capable"  # "true" on the nodes that MPS's daemon runs on
PRESENT = "nvidia.com/gpu.present=true"  # of the DaemonSet's nodes
CONFIG_MAP = ("allotment", "nvidia-device-plugin")
DEFAULT = "exclusive"  # `config.default`, for nodes without the label
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
LOOK = 0.3  # seconds between looks
# What the MIG manager makes of each GPU, by its configuration's name: NVIDIA's own for 80 GB, and one that an owner adds.
LAYOUTS: Mapping[str, Mapping[str, int]] = {
    "all-balanced": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
    "small-and-half": {"1g.10gb": 4, "3g.40gb": 1},
}


def resources(gpus: int, config: Mapping[str, Any], layout: Mapping[str, int]) -> dict[str, int]:
    """Return what the plugin announces of so many GPUs: `config` is its configuration, `layout` the devices of each cut GPU. A
    resource whose GPUs go by another name is announced as none."""
    if layout and config.get("flags", {}).get("migStrategy") == "mixed":
        return {
            GPU: 0,
            **{f"nvidia.com/mig-{profile.replace('+', '.')}": gpus * count for profile, count in layout.items()},
        }
    sharing = config.get("sharing", {})
    shared = sharing.get("mps") or sharing.get("timeSlicing") or {}
    for resource in shared.get("resources", ()):
        if resource["name"] == GPU:
            slices = gpus * int(resource["replicas"])
            return {GPU: 0, f"{GPU}{SHARED}": slices} if shared.get("renameByDefault") else {GPU: slices}
    return {GPU: gpus}


class DevicePlugin:
    """Looks at nodes, and announces the GPUs of each whose configuration is another than it was; `types` are GPUs by instance
    type."""

    def __init__(self, client: Client, types: Mapping[str, int]) -> None:
        self._client = client
        self._types = types
        self._announced: dict[str, tuple[str, ...]] = {}  # by a node's UID: the labels that it was configured by

    def look(self) -> None:
        """Announce what is to be announced now. A node waits whose label names nothing, or that has no MPS daemon where it is to be
        shared by MPS: there the plugin doesn't start."""
        for node in self._client.list("v1", "Node", labels=PRESENT):
            labels, uid = node["metadata"]["labels"], node["metadata"]["uid"]
            named = (labels.get(CONFIG) or DEFAULT, labels.get(MIG_CONFIG, ""), labels.get(MPS_CAPABLE, ""))
            if (
                labels.get(INSTANCE_TYPE) not in self._types
                or self._announced.get(uid) == named
                or not _runs_pods(node)
            ):
                continue
            configurations = self._client.get("v1", "ConfigMap", *CONFIG_MAP)["data"]
            if named[0] not in configurations:
                print(f"{node['metadata']['name']}: no configuration {named[0]}", flush=True)
                continue
            config = yaml.load(configurations[named[0]], yaml.CSafeLoader)
            if "mps" in config.get("sharing", {}) and named[2] != "true":
                print(f"{node['metadata']['name']}: no MPS daemon", flush=True)
                continue
            announced = resources(self._types[labels[INSTANCE_TYPE]], config, LAYOUTS.get(named[1], {}))
            self._announce(node, announced)
            self._announced[uid] = named

    def _announce(self, node: Object, announced: Mapping[str, int]) -> None:
        """Write it as a kubelet does: what is announced no longer stays, as none."""
        before = [name for name in node["status"].get("capacity", {}) if name.startswith("nvidia.com/")]
        amounts = {name: str(announced.get(name, 0)) for name in (*before, *announced)}
        self._client.patch_status("v1", "Node", node["metadata"]["name"], {"capacity": amounts, "allocatable": amounts})
        print(f"{node['metadata']['name']}: {amounts}", flush=True)


def _runs_pods(node: Object) -> bool:
    """Return whether a DaemonSet's pod runs on a node: it is Ready, and Karpenter has taken its taint off."""
    conditions = node["status"].get("conditions", ())
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return ready and "karpenter.sh/unregistered" not in taints and "deletionTimestamp" not in node["metadata"]


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--types", type=click.Path(path_type=Path), required=True, help="Karpenter's file of instance types.")
def main(kubeconfig: Path, types: Path) -> None:
    """Announce the GPUs of a cluster's nodes."""
    gpus = {
        instance_type["name"]: int(instance_type["resources"][GPU])
        for instance_type in json.loads(types.read_text(encoding="utf-8"))
    }
    plugin = DevicePlugin(Client(kubeconfig), gpus)
    while True:
        try:
            plugin.look()
        except Exception as error:  # no ConfigMap yet, a node that went meanwhile, an API server that is busy
            print(f"{type(error).__name__}: {error}", flush=True)
        time.sleep(LOOK)


if __name__ == "__main__":
    main()
