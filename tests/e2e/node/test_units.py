"""Units of a node that runs containers: each pod gets its own, nobody gets one too many, and one that goes bad is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from allotment.branches.status_branches import CLUSTER
from allotment.capacity.units import node_resources
from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from allotment.observed.status import Stock, parse_cluster_status
from tests.controlplane import images, node, rendered, simulated
from tests.controlplane.client import Client
from tests.controlplane.cluster import PROJECT
from tests.controlplane.fixtures import GitRemote, Node
from tests.e2e.node import pods
from tests.support.published import git
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
GPU = "nvidia.com/gpu"
ORBIT = "t-ml-orbit"
SLEEPS = "trap exit TERM; sleep infinity & wait"
SHARED = ("platform/cluster/namespaces.rendered.yaml", "platform/cluster/priority-classes.rendered.yaml")


def pod(name: str, resource: str = GPU, **more: Any) -> dict[str, Any]:
    """Return a pod that wants one unit of the real node, and says what it got."""
    container = {"name": "main", "image": node.PAUSE, "resources": {"limits": {resource: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"test": "units"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "nodeSelector": {"kubernetes.io/hostname": node.NAME},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            **more,
        },
    }


@pytest.fixture
def client(real_node: Node) -> Iterator[Client]:
    """Return the cluster's client; the pods of a test end with it, and its units are well again."""
    cluster_client = real_node.cluster.client
    yield cluster_client
    (real_node.world.folder / "unwell").unlink(missing_ok=True)
    for live_pod in cluster_client.list("v1", "Pod", "default", "test=units"):
        cluster_client.delete("v1", "Pod", live_pod["metadata"]["name"], "default")
    eventually(lambda: not cluster_client.list("v1", "Pod", "default", "test=units"), "the pods to be gone")
    eventually(lambda: allocatable(cluster_client) == node.UNITS, "the node to have all its units")


def allocatable(client: Client) -> dict[str, int]:
    """Return the units that the node has for pods, by resource."""
    status = client.get("v1", "Node", node.NAME)["status"]["allocatable"]
    return {name: int(status[name]) for name in node.UNITS}


def status_of(client: Client, name: str) -> dict[str, Any]:
    pod_status: dict[str, Any] = client.get("v1", "Pod", name, "default")["status"]
    return pod_status


def runs(client: Client, name: str) -> bool:
    return bool(status_of(client, name).get("phase") == "Running")


def device_of(real_node: Node, name: str, namespace: str = "default") -> str:
    """Return the unit that a pod's container sees."""
    environment = pods.run_command(real_node.cluster, {"metadata": {"name": name, "namespace": namespace}}, "env")
    return dict(line.split("=", 1) for line in environment.splitlines())["NVIDIA_VISIBLE_DEVICES"]


@pytest.fixture
def full(real_node: Node, client: Client) -> list[str]:
    """Return the names of four pods that run, one for each of the node's GPUs."""
    pod_names = [f"gpu-{number}" for number in range(4)]
    client.apply(*map(pod, pod_names))
    for name in pod_names:
        eventually(partial(runs, client, name), f"{name} to run")
    return pod_names


def test_each_pod_gets_a_unit_of_its_own(real_node: Node, full: list[str]) -> None:
    assert sorted(device_of(real_node, name) for name in full) == ["0", "1", "2", "3"]


def test_one_too_many_waits_until_another_ends(real_node: Node, client: Client, full: list[str]) -> None:
    client.apply(pod("gpu-4"))

    def refused() -> str | None:
        conditions = [
            condition
            for condition in status_of(client, "gpu-4").get("conditions", ())
            if condition["reason"] == "Unschedulable"
        ]
        return str(conditions[0]["message"]) if conditions else None

    assert f"Insufficient {GPU}" in eventually(refused, "the fifth pod to be refused")
    released = device_of(real_node, full[2])
    client.delete("v1", "Pod", full[2], "default")
    eventually(partial(runs, client, "gpu-4"), "the fifth pod to run")
    assert device_of(real_node, "gpu-4") == released


def test_a_pod_that_names_the_full_node_fails_there(client: Client, full: list[str]) -> None:
    client.apply(pod("forced", nodeName=node.NAME))
    eventually(lambda: status_of(client, "forced").get("phase") == "Failed", "the pod to be refused")
    refused = status_of(client, "forced")
    assert refused["reason"] == "UnexpectedAdmissionError"
    assert f"unavailable for {GPU}. Requested: 1, Available: 0" in refused["message"]
    assert all(status_of(client, name)["phase"] == "Running" for name in full)


def test_a_unit_that_went_bad_is_given_to_nobody(real_node: Node, client: Client) -> None:
    (real_node.world.folder / "unwell").write_text(f"{GPU}-0\n{GPU}-2\n", encoding="ascii")
    eventually(lambda: allocatable(client)[GPU] == 2, "the units to be counted no more")
    client.apply(pod("gpu-0"), pod("gpu-1"), pod("gpu-2"))

    def phases() -> list[str]:
        return sorted(status_of(client, f"gpu-{number}")["phase"] for number in range(3))

    eventually(lambda: phases() == ["Pending", "Running", "Running"], "two of them to run")
    running_pods = [name for name in ("gpu-0", "gpu-1", "gpu-2") if runs(client, name)]
    assert sorted(device_of(real_node, name) for name in running_pods) == ["1", "3"]


@pytest.fixture
def posing(real_node: Node, client: Client) -> Iterator[Node]:
    """Return the real node, which may stand for one of a declared pool; what is applied of the sample goes in the end."""
    yield real_node
    rendered.clear(client)


def apply(real_node: Node, tree: Path, pool: str, *parts: str) -> NodePool:
    """Let the node stand for one of a pool, apply parts of the sample with images that only sleep, and return the pool."""
    node_pool = simulated.declared(PROJECT, "eu-1").of_kind(NodePool)[pool].model
    node.pose(real_node.cluster, node_pool)
    objects = [*rendered.objects(tree, *SHARED, *parts)]
    pods = [manifest["spec"]["template"]["spec"] for manifest in objects if manifest["kind"] == "Deployment"]
    image_names = {container["image"] for pod_spec in pods for container in pod_spec["containers"]}
    node.take_in(real_node.world, dict.fromkeys(image_names, images.busybox("/bin/sh", "-c", SLEEPS)))
    real_node.cluster.client.apply(*objects)
    return node_pool


def test_the_copies_of_an_instance_get_a_slice_of_a_gpu_each(posing: Node, client: Client, sample_tree: Path) -> None:
    """They may not become ready, in an image that only sleeps: their units are what matters here."""
    space = "control/namespaces/m/ml-orbit.rendered.yaml"
    pool = apply(posing, sample_tree, "a100-mig", space, "tenants/ml-orbit/compute/embed.rendered.yaml")
    mig = {name: amount for name, amount in node_resources(pool.spec).items() if "/mig-" in name}
    assert len(mig) == 3
    assert {name: allocatable(client)[name] for name in mig} == mig

    def started() -> list[str]:
        pods = client.list("v1", "Pod", ORBIT, f"{names.INSTANCE}=embed")
        return [live_pod["metadata"]["name"] for live_pod in pods if live_pod["status"].get("phase") == "Running"]

    eventually(lambda: len(started()) == 2, "both copies to run")
    devices = {int(device_of(posing, name, ORBIT)) for name in started()}
    assert len(devices) == 2
    assert devices <= set(range(mig["nvidia.com/mig-1g.10gb"]))


def test_a_unit_that_goes_bad_is_none_that_a_stock_has_ready(
    posing: Node, client: Client, sample_tree: Path, git_remote: GitRemote, tmp_path: Path
) -> None:
    """Its placeholder runs on: that the unit can't be had is known from what the kubelet says of the pod's device."""
    apply(posing, sample_tree, "l4-whole", "platform/stock/l4-whole.rendered.yaml")
    command = [sys.executable, "-m", "allotment", "report", "--once", "--cluster", "eu-1", "--to", git_remote.url]
    command += ["--data", str(tmp_path / "data"), "--kubeconfig", str(posing.cluster.kubeconfig)]

    def reported() -> Stock:
        subprocess.run(command, check=True, capture_output=True)
        (stock,) = parse_cluster_status(git(git_remote.path, "show", f"status/eu-1:{CLUSTER}").encode() + b"\n").stocks
        return stock

    def is_ready(units: int) -> bool:
        return reported().ready == units

    eventually(partial(is_ready, 4), "each GPU of the node to be ready in the status")
    assert reported() == Stock("l4-whole", "l4-whole", 5, 0, 5, 4)
    (posing.world.folder / "unwell").write_text(f"{GPU}-1\n", encoding="ascii")
    eventually(partial(is_ready, 3), "the status to have one less")
    running = [
        live_pod
        for live_pod in client.list("v1", "Pod", names.STOCK_NAMESPACE)
        if live_pod["status"]["phase"] == "Running"
    ]
    assert len(running) == 4
    (posing.world.folder / "unwell").unlink()
    eventually(partial(is_ready, 4), "the status to have it again")
