"""A real node's network: names are resolved, the internet answers, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import dns, images, internet, node
from tests.controlplane.fixtures import Node
from tests.e2e.node import pods
from tests.e2e.node.pods import Pod
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
IMAGE = f"registry.example/probe@sha256:{'b' * 64}"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "probe"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


@pytest.fixture(scope="module")
def probe(real_node: Node) -> Iterator[Pod]:
    """Return a pod that answers at port 8080 behind the Service web, and in which commands run."""
    client = real_node.cluster.client
    serves = "echo probe > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    node.take_in(real_node.world, {IMAGE: images.busybox("/bin/sh", "-c", serves)})
    client.apply(SERVICE)
    with pods.running(real_node, pods.pod("default", "probe", IMAGE, {"app": "probe"})) as (probe_pod,):
        eventually(lambda: pods.fetch(real_node, probe_pod, "web").stdout, "kube-proxy to know the Service")
        yield probe_pod
    client.delete("v1", "Service", "web", "default")


def fetched(real_node: Node, pod: Pod, address: str) -> str:
    """Return what a web server answers a pod."""
    return pods.fetch(real_node, pod, address).stdout


@pytest.mark.parametrize("name", ["web", "web.default", "web.default.svc", "web.default.svc.cluster.local"])
def test_a_pod_finds_a_service_by_its_name(name: str, real_node: Node, probe: Pod) -> None:
    assert fetched(real_node, probe, name) == "probe\n"


def test_a_pod_finds_the_internet_by_a_name(real_node: Node, probe: Pod) -> None:
    assert fetched(real_node, probe, "www.example.com") == f"{internet.PUBLIC}\n"


@pytest.mark.parametrize("address", [internet.PUBLIC, internet.METADATA, internet.PRIVATE])
def test_without_policies_a_pod_reaches_each_address(address: str, real_node: Node, probe: Pod) -> None:
    assert fetched(real_node, probe, address) == f"{address}\n"


def test_nobody_has_another_name(real_node: Node, probe: Pod) -> None:
    for name in ("nothing.default.svc.cluster.local", "nothing.example.com"):
        ended = pods.tried(real_node, probe, "nslookup", name)
        assert ended.returncode == 1
        assert "NXDOMAIN" in ended.stdout
        assert dns.ADDRESS in ended.stdout


def test_nobody_has_another_address(real_node: Node, probe: Pod) -> None:
    assert "Network is unreachable" in pods.fetch(real_node, probe, "93.184.216.1").stderr
