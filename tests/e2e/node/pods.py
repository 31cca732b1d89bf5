"""Pods that tests on a real node make: started on it, waited for, and asked to run a command."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.controlplane import node, programs
from tests.controlplane.cluster import Cluster
from tests.controlplane.fixtures import Node
from tests.support.waiting import eventually

Pod = dict[str, Any]


def pod(namespace: str, name: str, image: str, labels: Mapping[str, str] | None = None, **more: Any) -> Pod:
    """Return a pod for the real node that a tenant's namespace takes; `more` goes into its spec."""
    secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec = {
        "nodeName": node.NAME,
        "hostUsers": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": image, "securityContext": secure}],
    }
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **more}}


def seen(real_node: Node, pod: Pod) -> Pod:
    """Return a pod as the API server has it now."""
    return real_node.cluster.client.get("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])


@contextmanager
def running(real_node: Node, *wanted: Pod) -> Iterator[list[Pod]]:
    """Give pods as the API server has them once all are Ready, and delete them in the end."""
    client = real_node.cluster.client
    for namespace in {pod["metadata"]["namespace"] for pod in wanted}:
        account = partial(client.get, "v1", "ServiceAccount", "default", namespace)
        eventually(account, f"the service account of {namespace}")
    # A namespace's quota takes no pods before it was counted for the first time.
    eventually(partial(client.apply, *wanted), "pods to be taken")
    try:
        yield [eventually(partial(_ready, real_node, pod), "a pod to be Ready") for pod in wanted]
    finally:
        for pod in wanted:
            client.delete("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])


def _ready(real_node: Node, pod: Pod) -> Pod | None:
    live_pod = seen(real_node, pod)
    conditions = live_pod["status"].get("conditions", ())
    return (
        live_pod
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
        else None
    )


def tried(real_node: Node, pod: Pod, *command: str) -> subprocess.CompletedProcess[str]:
    """Return how a command ended in a pod's container, and what it said."""
    return _exec(real_node.cluster, pod, command)


def _exec(cluster: Cluster, pod: Pod, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    metadata = pod["metadata"]
    kubectl = [str(programs.program("kubectl")), f"--kubeconfig={cluster.kubeconfig}"]
    run = [*kubectl, "exec", f"--namespace={metadata['namespace']}", metadata["name"], "--", *command]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def run_command(cluster: Cluster, pod: Pod, *command: str) -> str:
    """Return what a command says in a pod's container. Raises CalledProcessError where it fails."""
    ended = _exec(cluster, pod, command)
    ended.check_returncode()
    return ended.stdout


def processes_of(pod: Pod) -> list[psutil.Process]:
    """Return a pod's processes on this machine, which other pods, also of other checkouts, have processes of the same name on."""
    pod_processes = []
    for process in psutil.process_iter():
        try:
            of = Path(f"/proc/{process.pid}/cgroup").read_text(encoding="ascii")
        except OSError:  # it has ended meanwhile
            continue
        if f"pod{pod['metadata']['uid']}" in of:
            pod_processes.append(process)
    return pod_processes


def uid_map(process: psutil.Process) -> tuple[int, int, int]:
    """Return which users of the machine the users of a process's namespace are: the first inside, that one outside, how many."""
    inside, outside, count = Path(f"/proc/{process.pid}/uid_map").read_text(encoding="ascii").split()
    return int(inside), int(outside), int(count)


def fetch(real_node: Node, pod: Pod, address: str) -> subprocess.CompletedProcess[str]:
    """Return how it ended that a pod asked a web server, and what that answered."""
    # Not wget's own -T: Debian's static BusyBox crashes by it.
    return tried(real_node, pod, "busybox", "timeout", "5", "wget", "-q", "-O", "-", f"http://{address}/")
