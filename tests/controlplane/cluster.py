"""One cluster of the test bed: etcd, API server, controllers, scheduler and KWOK as processes of this machine.

Its folder holds everything of it: configuration, data, logs, and `kubeconfig`. It is `.cluster/<name>` in the checkout; each
worker of pytest-xdist has clusters of its own, `.cluster/<name>.<worker>`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from allotment.declared.inventory import ScopeDeclarations
from tests.controlplane import crds, processes, programs, simulated
from tests.controlplane.client import Client
from tests.controlplane.world import ADVERTISED
from tests.support.waiting import eventually

PROJECT = Path(__file__).resolve().parent.parent.parent
STATE = PROJECT / ".cluster"
OWN = "".join(f".{worker}" for worker in [os.environ.get("PYTEST_XDIST_WORKER")] if worker)
STAGES = Path(__file__).resolve().parent / "stages"
POLICIES = ("BackendTrafficPolicy", "ClientTrafficPolicy", "EnvoyExtensionPolicy")  # accepted as a SecurityPolicy is
NODE_STAGES = ("fast/node-initialize.yaml", "heartbeat-with-lease/node-heartbeat-with-lease.yaml")
SERVICE_RANGE = "10.96.0.0/12"  # kwokctl's own has 254 addresses
SERVICE_ADDRESS = "10.96.0.1"  # of the API server, as pods name it
PORTS = programs.CACHE / ".ports.lock"  # kwokctl looks for ports that are free, and two that look at once find the same
REAL = ".real"  # behind the name of a cluster's folder: it has a real node
STARTED = "started.json"  # written last: a cluster without it was stopped halfway
# A real node is none of KWOK's.
NONE_OF_KWOKS = {"manage_all_nodes": "false", "manage_nodes_with_annotation_selector": "kwok.x-k8s.io/node=fake"}
# What KWOK plays of a storage driver; beside a real node `provisioner` does it, with files.
WITHOUT_FILES = frozenset({"volume-provision", "volume-delete", "snapshot-take"})
SOON_LOST = {"node_monitor_grace_period": "20s", "node_monitor_period": "1s"}  # 50 s otherwise, and nothing else to see
BINARIES = {
    "etcd": "etcd",
    "kube-apiserver": "kube-apiserver",
    "kube-controller-manager": "kube-controller-manager",
    "kube-scheduler": "kube-scheduler",
    "kwok-controller": "kwok",
}


@dataclass(frozen=True)
class Cluster:
    """A cluster by its name, which is also that of the declared cluster whose nodes and classes it has."""

    name: str
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """The file by which an administrator reaches it."""
        return self.folder / "kubeconfig"

    @cached_property
    def client(self) -> Client:
        """An administrator's client."""
        return Client(self.kubeconfig)

    @property
    def is_real(self) -> bool:
        """Whether a node of it runs containers."""
        return self.folder.name.startswith(f"{self.name}{REAL}")

    @property
    def keys(self) -> Path:
        """The folder of its keys and certificates: those of its authority, and of an administrator."""
        return self.folder / "kwok" / "clusters" / self.name / "pki"

    @property
    def server(self) -> str:
        """The URL of its API server."""
        return str(self.user()["cluster"]["server"])

    def user(self) -> dict[str, Any]:
        """Return the kubeconfig's `cluster` and `user`, with the paths of their certificates."""
        config = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))
        return {"cluster": config["clusters"][0]["cluster"], "user": config["users"][0]["user"]}

    def parts(self) -> dict[str, Any]:
        """Return what runs beside Kubernetes, by name, with its addresses."""
        noted: dict[str, Any] = json.loads((self.folder / STARTED).read_text(encoding="utf-8"))["parts"]
        return noted


def place(name: str, *, real: bool = False) -> Cluster:
    """Return the cluster of a name, whether it runs or not; with a `real` node it is one of its own."""
    return Cluster(name, STATE / f"{name}{REAL if real else ''}{OWN}")


def state(cluster: Cluster, root: Path = PROJECT) -> str:
    """Return "running", "outdated" (it was started from other files), "broken" (after a crash) or "gone"."""
    if not cluster.folder.exists():
        return "gone"
    if not (cluster.folder / STARTED).exists() or not cluster.client.ready():
        return "broken"
    noted = json.loads((cluster.folder / STARTED).read_text(encoding="utf-8"))
    alive = {process.name() for process in processes.running(cluster.folder)}
    if not alive >= set(BINARIES):
        return "broken"
    return "running" if noted["made_of"] == fingerprint(cluster.name, root) else "outdated"


def fingerprint(name: str, root: Path) -> str:
    """Return a key of everything that a cluster is made of: programs, CRDs, this package, the declared cluster."""
    files = [*Path(__file__).parent.glob("*.py"), *STAGES.glob("*.yaml"), *simulated.POOLS.glob("*.yaml")]
    files += (root / "clusters" / name).rglob("*.yaml")
    made_of = hashlib.sha256(str(crds.home()).encode())
    for tool in sorted(programs.TOOLS):
        made_of.update(str(programs.home(tool)).encode())
    for file in sorted(files):
        made_of.update(str(file).encode() + file.read_bytes())
    return made_of.hexdigest()


def start(cluster: Cluster, declared: ScopeDeclarations) -> None:
    """Start a cluster that has what is declared of it, from nothing. Raises NotBuilt or NotStarted."""
    stop(cluster)
    cluster.folder.mkdir(parents=True)
    _create(cluster)
    client = cluster.client
    client.install(crds.objects())
    left_out = WITHOUT_FILES if cluster.is_real else frozenset()
    _play(cluster, [stage for stage in _stages() if stage["metadata"]["name"] not in left_out])
    for manifest in simulated.surroundings(declared):
        client.create(manifest) if manifest["kind"] == "Node" else client.apply(manifest)
    eventually(lambda: _nodes_are_ready(client), "nodes to be ready")


def note_started(cluster: Cluster, root: Path, parts: dict[str, Any]) -> None:
    """Write down that a cluster is complete, and what runs in it."""
    text = json.dumps({"made_of": fingerprint(cluster.name, root), "parts": parts}, indent=2)
    partial = cluster.folder / f"{STARTED}.partial"
    partial.write_text(text + "\n", encoding="utf-8")
    os.replace(partial, cluster.folder / STARTED)


def stop(cluster: Cluster) -> int:
    """End all processes of a cluster, whoever started them, remove its folder, and return how many there were."""
    ended = processes.stop(cluster.folder, 0)  # what they would still write goes too
    shutil.rmtree(cluster.folder, ignore_errors=True)
    return ended


def _create(cluster: Cluster) -> None:
    """kwokctl writes keys and certificates and starts the programs; its configuration keeps them to the loopback."""
    config = cluster.folder / "kwokctl.yaml"
    config.write_text(yaml.safe_dump(_configuration(cluster)), encoding="utf-8")
    run: list[str | Path] = [programs.program("kwokctl"), "create", "cluster", "--name", cluster.name]
    run += ["--config", config, "--kubeconfig", cluster.kubeconfig, "--runtime", "binary", "--wait", "2m"]
    for option, name in BINARIES.items():
        run += [f"--{option}-binary", programs.program(name)]
    path = f"{programs.program('kubectl').parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = processes.environment(
        cluster.folder, {"KWOK_WORKDIR": str(cluster.folder / "kwok"), "PATH": path, "HOME": str(cluster.folder)}
    )
    with processes.alone(PORTS):
        done = subprocess.run(
            run, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    (cluster.folder / "logs").mkdir()
    (cluster.folder / "logs" / "kubernetes").symlink_to(f"../kwok/clusters/{cluster.name}/logs")
    if done.returncode:
        raise processes.NotStarted(f"kwokctl ended with {done.returncode}:\n{done.stderr[-4000:]}")


def _configuration(cluster: Cluster) -> dict[str, Any]:
    def patched(component: str, **arguments: str) -> dict[str, Any]:
        extra = [{"key": key.replace("_", "-"), "value": value} for key, value in arguments.items()]
        return {"name": component, "extraArgs": extra}

    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {
            "bindAddress": processes.LOOPBACK,
            "enableCRDs": ["Stage"],
            "disableQPSLimits": True,
            **({"kubeApiserverCertSANs": [ADVERTISED, SERVICE_ADDRESS]} if cluster.is_real else {}),
        },
        "componentsPatches": [
            patched(
                "kube-apiserver",
                service_cluster_ip_range=SERVICE_RANGE,
                **(_reaches_a_kubelet(cluster) if cluster.is_real else {}),
            ),
            *([patched("kwok-controller", **NONE_OF_KWOKS)] if cluster.is_real else []),
            # Each is alone, and a busy machine must not end it: who can't renew its Lease in time gives up, and nobody takes over.
            patched(
                "kube-controller-manager",
                service_cluster_ip_range=SERVICE_RANGE,
                leader_elect="false",
                **(SOON_LOST if cluster.is_real else {}),
            ),
            patched("kube-scheduler", leader_elect="false"),
            # Nothing here outlives its machine, and syncing files is what etcd mostly waits for.
            patched("etcd", unsafe_no_fsync="true"),
        ],
    }


def _reaches_a_kubelet(cluster: Cluster) -> dict[str, str]:
    """Return the API server's arguments by which a real node finds it, and it the node's kubelet."""
    return {
        "advertise_address": ADVERTISED,
        "kubelet_client_certificate": str(cluster.keys / "admin.crt"),
        "kubelet_client_key": str(cluster.keys / "admin.key"),
        "kubelet_preferred_address_types": "InternalIP",
    }


def _stages() -> Iterator[dict[str, Any]]:
    own = [STAGES / file.name for file in sorted(STAGES.glob("*.yaml"))]
    ready_made = [programs.files("kwok") / "kustomize/stage/node" / file for file in NODE_STAGES]
    for file in [*ready_made, *own]:
        for stage in yaml.load_all(file.read_bytes(), yaml.CSafeLoader):
            yield stage
            if stage["metadata"]["name"] == "policy-accept":
                yield from (_of_kind(stage, kind) for kind in POLICIES)


def _of_kind(stage: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a stage that plays another kind of the same API with the same status."""
    spec = stage["spec"]
    name = f"{stage['metadata']['name']}-{kind.lower()}"
    return {
        **stage,
        "metadata": {"name": name},
        "spec": {**spec, "resourceRef": {**spec["resourceRef"], "kind": kind}},
    }


def _play(cluster: Cluster, stages: list[dict[str, Any]]) -> None:
    """Give KWOK its Stages, and don't go on before it plays them all.

    It looks at them when one changes, and misses those that come while it looks: so one is touched until it has seen all.
    """
    kinds = {stage["spec"]["resourceRef"]["kind"] for stage in stages}
    cluster.client.apply(*stages)
    touched = itertools.count(1)

    def all_are_played() -> bool:
        times = next(touched)
        stages[0]["metadata"]["annotations"] = {"allotment.dev/touched": str(times)}
        cluster.client.apply(stages[0])
        log = (cluster.folder / "logs" / "kubernetes" / "kwok-controller.log").read_text(encoding="utf-8")
        log_entries = [json.loads(line) for line in log.splitlines() if '"Start stage controller"' in line]
        return kinds <= {log_entry["ref"]["Kind"] for log_entry in log_entries} and times > 1

    eventually(all_are_played, "KWOK to play its Stages", pause=0.5)


def _nodes_are_ready(client: Client) -> bool:
    conditions_by_node = [node.get("status", {}).get("conditions", ()) for node in client.list("v1", "Node")]
    return all(
        any(condition["type"] == "Ready" and condition["status"] == "True" for condition in each)
        for each in conditions_by_node
    )
