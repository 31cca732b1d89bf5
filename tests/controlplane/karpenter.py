"""Karpenter with its KWOK provider: pods that fit no node make it buy one, of the declared pools' instance types."""

from __future__ import annotations

import json

import yaml

from allotment.declared.inventory import Folder
from tests.controlplane import processes, programs, simulated
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import LOOPBACK
from tests.controlplane.web import call


def start(cluster: Cluster, declared: Folder) -> str:
    """Start Karpenter in a cluster, able to buy what is declared for it; return its health URL."""
    folder = cluster.folder / "karpenter"
    folder.mkdir()
    crds = [
        yaml.load(file.read_bytes(), yaml.CSafeLoader)
        for file in (programs.files("karpenter") / "kwok/apis/crds").glob("*.yaml")
    ]
    cluster.client.install(crds)
    types = folder / "instance-types.json"
    types.write_text(json.dumps(simulated.instance_types(declared)), encoding="utf-8")
    ports = processes.free_ports()
    health = next(ports)
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "DISABLE_LEADER_ELECTION": "true",
        "SYSTEM_NAMESPACE": "kube-system",
        "KARPENTER_SERVICE": "karpenter",
        "METRICS_PORT": str(next(ports)),
        "HEALTH_PROBE_PORT": str(health),
        "INSTANCE_TYPES_FILE_PATH": str(types),
        "BATCH_IDLE_DURATION": "200ms",
        "BATCH_MAX_DURATION": "1s",
    }
    started = processes.start(cluster.folder, "karpenter", [programs.program("karpenter")], environment)
    url = f"http://{LOOPBACK}:{health}/healthz"
    started.wait_until(lambda: call(url), seconds=90)
    return url
