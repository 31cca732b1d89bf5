"""A real node: containers that run, in a world that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.declared.kinds.node_pool import NodePool
from tests.controlplane import images, internet, node, processes, rendered, simulated, world
from tests.controlplane.cluster import PROJECT
from tests.controlplane.fixtures import Node, needs_a_node
from tests.e2e.node import pods
from tests.e2e.node.traces import traces
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
ADA = "t-solo-ada"
WEB = f"registry.example/web@sha256:{'a' * 64}"
SERVES = "echo served by $(id -u) > /tmp/index.html; trap exit TERM; httpd -f -p 8080 -h /tmp & wait"


@pytest.fixture(scope="module")
def web(real_node: Node) -> Iterator[dict[str, Any]]:
    """Return a pod as the API server holds it once it runs: of a user namespace of its own, by a digest that is declared."""
    client = real_node.cluster.client
    node.take_in(real_node.world, {WEB: images.busybox("/bin/sh", "-c", SERVES)})
    secure = {"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}, "allowPrivilegeEscalation": False}
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "nodeName": node.NAME,
                "hostUsers": False,
                "automountServiceAccountToken": False,
                "containers": [{"name": "web", "image": WEB, "securityContext": secure}],
            },
        }
    )

    def running() -> dict[str, Any] | None:
        live_pod = client.get("v1", "Pod", "web", "default")
        ready = any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in live_pod["status"]["conditions"]
        )
        return live_pod if ready else None

    yield eventually(running, "the pod to be Ready")
    client.delete("v1", "Pod", "web", "default")


def test_a_pod_answers_from_an_address_of_its_own(web: dict[str, Any]) -> None:
    def ask() -> bytes:
        with urllib.request.urlopen(f"http://{web['status']['podIP']}:8080", timeout=5) as answer:
            return bytes(answer.read())

    # The pod has no probe, so it is Ready before its server listens.
    assert eventually(ask, "the pod's server to listen") == b"served by 1000\n"


def test_the_pods_root_is_nobody_of_the_machine(web: dict[str, Any]) -> None:
    (server,) = [process for process in pods.processes_of(web) if process.name() == "httpd"]
    inside, outside, count = pods.uid_map(server)
    assert (inside, count) == (0, 65536)
    assert outside >= 65536
    assert server.uids().real == outside + 1000


def test_a_command_runs_in_it_through_the_api_server(real_node: Node, web: dict[str, Any]) -> None:
    assert pods.run_command(real_node.cluster, web, "cat", "/tmp/index.html") == "served by 1000\n"


@pytest.fixture(scope="module")
def webui(real_node: Node, sample_tree: Path) -> Iterator[dict[str, Any]]:
    """Return the pod of solo-ada's instance once it runs, from what is rendered of the sample and nothing else."""
    cluster, client = real_node.cluster, real_node.cluster.client
    pools = simulated.declared(PROJECT, "eu-1").of_kind(NodePool)
    node.pose(cluster, pools["l4-ts4"].model)
    shared = ("platform/cluster/namespaces.rendered.yaml", "platform/cluster/priority-classes.rendered.yaml")
    objects = [*rendered.objects(sample_tree, *shared)]
    objects += rendered.objects(sample_tree, "control/namespaces/s/solo-ada.rendered.yaml", "tenants/solo-ada")
    (instance,) = [
        manifest for manifest in objects if (manifest["kind"], manifest["metadata"]["name"]) == ("Deployment", "webui")
    ]
    (container,) = instance["spec"]["template"]["spec"]["containers"]
    node.take_in(real_node.world, {container["image"]: images.busybox("/bin/sh", "-c", SERVES.replace("8080", "7860"))})
    client.apply(*objects)

    def running() -> dict[str, Any] | None:
        pods = client.list("v1", "Pod", ADA, "allotment.dev/instance=webui")
        ready = [pod for pod in pods if any(part.get("ready") for part in pod["status"].get("containerStatuses", ()))]
        return ready[0] if ready else None

    yield eventually(running, "the instance's pod to be ready")
    rendered.clear(client)


def test_an_instance_of_the_sample_runs_as_it_is_rendered(webui: dict[str, Any]) -> None:
    assert webui["spec"]["nodeName"] == node.NAME
    with urllib.request.urlopen(f"http://{webui['status']['podIP']}:7860", timeout=5) as answer:
        assert answer.read() == b"served by 0\n"


def test_a_pod_has_its_unit_its_memory_and_no_token(real_node: Node, webui: dict[str, Any]) -> None:
    environment = dict(line.split("=", 1) for line in pods.run_command(real_node.cluster, webui, "env").splitlines())
    assert environment["HF_HOME"] == "/scratch/hf"
    assert int(environment["NVIDIA_VISIBLE_DEVICES"]) in range(node.UNITS["nvidia.com/gpu.shared"])
    shm = pods.run_command(real_node.cluster, webui, "df", "-m", "/dev/shm").splitlines()[-1].split()
    assert shm[1] == "4096"
    assert pods.run_command(real_node.cluster, webui, "sh", "-c", "ls /var/run/secrets 2>&1 || echo none").endswith(
        "none\n"
    )


def test_its_storage_is_a_volume_with_files(real_node: Node, webui: dict[str, Any]) -> None:
    pods.run_command(real_node.cluster, webui, "sh", "-c", "echo weights > /workspace/sdxl.safetensors")
    claim = real_node.cluster.client.get("v1", "PersistentVolumeClaim", "models", ADA)
    written = node.volumes(real_node.cluster) / claim["metadata"]["uid"] / "sdxl.safetensors"
    assert written.read_text(encoding="ascii") == "weights\n"
    assert written.parent.stat().st_gid == written.stat().st_gid


def test_a_gpu_that_goes_bad_is_none_of_the_nodes_any_more(real_node: Node) -> None:
    def allocatable() -> str:
        status = real_node.cluster.client.get("v1", "Node", node.NAME)["status"]
        return str(status["allocatable"]["nvidia.com/gpu"])

    assert allocatable() == "4"
    unwell = real_node.world.folder / "unwell"
    unwell.write_text("nvidia.com/gpu-2\n", encoding="ascii")
    eventually(lambda: allocatable() == "3", "the unit to be counted no more")
    unwell.unlink()
    eventually(lambda: allocatable() == "4", "the unit to be counted again")


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_a_world_leaves_nothing_behind(killed: bool, tmp_path: Path) -> None:
    needs_a_node()
    folder = tmp_path / "world"
    before = traces(folder)
    try:
        begun = world.begin(folder)
        link = begun.link
        internet.start(begun)
        noted = traces(folder, link)
        assert {what for what, trace in noted.items() if trace != before[what]} == {"link", "addr", "route", "groups"}
        assert begun.run(["cat", "/proc/1/comm"]) == "sleep\n"
        networks = {os.readlink(f"/proc/{process.pid}/ns/net") for process in processes.running(folder)}
        # Its own and the internet's: each ends with its last process, and its links with it.
        assert len(networks - {os.readlink("/proc/self/ns/net")}) == 2
        if killed:
            for process in processes.running(folder):
                with contextlib.suppress(ProcessLookupError):  # it ended with the first
                    os.kill(process.pid, signal.SIGKILL)
            eventually(lambda: not processes.running(folder), "its processes to end")
            assert world.find_world(folder) is None
    finally:
        world.end(folder)
    assert not processes.running(folder)
    assert traces(folder, link) == before


def test_a_world_has_ended_when_the_kernel_took_its_network_back(tmp_path: Path) -> None:
    needs_a_node()
    folder = tmp_path / "world"
    before = traces(folder)
    begun = world.begin(folder)
    link = begun.link
    # Who holds its network keeps it there, as a busy kernel does.
    held = os.open(f"/proc/{begun.first}/ns/net", os.O_RDONLY)
    released = threading.Timer(2, os.close, [held])
    released.start()
    world.end(folder)
    assert traces(folder, link) == before
    released.join()
