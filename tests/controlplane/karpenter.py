"""Karpenter with its KWOK provider: pods that fit no node make it buy one, of the declared pools' instance types.

`programs` says in which texts its provider is made to behave as AWS's does. Beside it `device_plugin` gives nodes their GPUs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection

import yaml

from allotment.declared.inventory import ScopeDeclarations
from tests.controlplane import processes, programs, simulated
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import LOOPBACK
from tests.controlplane.web import call

GATES = ("NodeOverlay",)  # off unless asked for, and what a pool of shared GPUs grows by
NAME = "karpenter"


def start(cluster: Cluster, declared: ScopeDeclarations, gates: Collection[str] = GATES) -> str:
    """Start Karpenter in a cluster, with these of its feature gates, able to buy what is declared for it and what tests declare
    besides; return its health URL."""
    folder = cluster.folder / NAME
    folder.mkdir()
    crds = [
        yaml.load(file.read_bytes(), yaml.CSafeLoader)
        for file in (programs.files(NAME) / "kwok/apis/crds").glob("*.yaml")
    ]
    cluster.client.install(crds)
    types = folder / "instance-types.json"
    types.write_text(json.dumps(simulated.instance_types(declared)), encoding="utf-8")
    plugin = [sys.executable, "-m", "tests.controlplane.device_plugin"]
    plugin += [f"--kubeconfig={cluster.kubeconfig}", f"--types={types}"]
    processes.start(cluster.folder, "device-plugin", plugin, programs.OWN)
    return run(cluster, gates)


def run(cluster: Cluster, gates: Collection[str] = GATES) -> str:
    """Run Karpenter in a cluster where it was started once, with other feature gates: one that runs ends first. Return its
    health URL."""
    processes.stop(cluster.folder, 0, NAME)  # asked to end, its operator would wait for half a minute
    ports = processes.free_ports()
    health = next(ports)
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "SYSTEM_NAMESPACE": "kube-system",
        "KARPENTER_SERVICE": NAME,
        "METRICS_PORT": str(next(ports)),
        "HEALTH_PROBE_PORT": str(health),
        "INSTANCE_TYPES_FILE_PATH": str(cluster.folder / NAME / "instance-types.json"),
        "FEATURE_GATES": ",".join(f"{gate}=true" for gate in gates),
        "BATCH_IDLE_DURATION": "200ms",
        "BATCH_MAX_DURATION": "1s",
    }
    started = processes.start(cluster.folder, NAME, [programs.program(NAME)], environment)
    url = f"http://{LOOPBACK}:{health}/healthz"
    started.wait_until(lambda: call(url), seconds=90)
    return url
