"""What tenants' namespaces let through, on packets: each place answers a tenant until what we render is applied."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from allotment.manifests import names
from tests.controlplane import cluster as cluster_
from tests.controlplane import dns, images, internet, node, policies, rendered
from tests.controlplane.fixtures import Node
from tests.controlplane.world import ADVERTISED
from tests.e2e.node import pods
from tests.e2e.node.pods import Pod

pytestmark = [pytest.mark.e2e, pytest.mark.node]
ADA, KITE = names.namespace("solo-ada"), names.namespace("studio-kite")
IMAGE = f"registry.example/neighbour@sha256:{'c' * 64}"
PORT = 7860
REFUSED = "No route to host"  # the answer to what policies refuse, and to nothing else here
NODE_LOCAL_DNS = "169.254.20.10"  # as the cluster declares it
OTHER_PORT = 8181  # Envoy Gateway, which runs on the node for other tests, listens at 8080
OPEN = ["its own pod", "DNS", "the DNS cache of its node", "the internet"]
CLOSED = [
    "another tenant's pod",
    "a pod of the gateway's",
    "the metadata address",
    "another port of the DNS cache",
    "the API server",
    "the API server's Service",
    "the node",
    "the pods' gateway on the node",
    "a private address",
]


class Place(NamedTuple):
    """Where something listens."""

    address: str
    port: int


class Neighbours(NamedTuple):
    """Pods of tenants and others, and what a tenant's pod may want to reach, by name."""

    pods: dict[str, Pod]
    places: dict[str, Place]


@pytest.fixture(scope="module")
def neighbours(real_node: Node, sample_tree: Path) -> Iterator[Neighbours]:
    """Return two tenants with pods, as their namespaces are rendered, a pod of the gateway's and a stranger's."""
    client, network = real_node.cluster.client, real_node.world.network
    node.take_in(real_node.world, {IMAGE: images.busybox("/bin/httpd", "-f", "-p", str(PORT), "-h", "/tmp")})
    shared = ("platform/cluster/namespaces.rendered.yaml", "platform/cluster/priority-classes.rendered.yaml")
    tenants = [f"control/namespaces/s/{name}.rendered.yaml" for name in ("solo-ada", "studio-kite")]
    client.apply(*rendered.objects(sample_tree, *shared), *rendered.objects(sample_tree, *tenants))
    wanted = [
        pods.pod(space, name, IMAGE, priorityClassName=names.INSTANCE_PRIORITY)
        for space, name in ((ADA, "ada"), (ADA, "adas-other"), (KITE, "kite"))
    ]
    wanted += [pods.pod("edge", "gateway", IMAGE), pods.pod("default", "stranger", IMAGE)]
    wanted += [pods.pod(names.STOCK_NAMESPACE, "placeholder", IMAGE)]
    with node_local_dns(real_node), pods.running(real_node, *wanted) as running:
        pods_by_name = {pod["metadata"]["name"]: pod for pod in running}
        addresses = {name: pod["status"]["podIP"] for name, pod in pods_by_name.items()}
        places = {
            "its own pod": Place(addresses["adas-other"], PORT),
            "DNS": Place(dns.ADDRESS, 53),
            "the internet": Place(internet.PUBLIC, internet.HTTP),
            "another tenant's pod": Place(addresses["kite"], PORT),
            "a pod of the gateway's": Place(addresses["gateway"], PORT),
            "the DNS cache of its node": Place(NODE_LOCAL_DNS, 53),
            "another port of the DNS cache": Place(NODE_LOCAL_DNS, OTHER_PORT),
            "the metadata address": Place(internet.METADATA, internet.HTTP),
            "the API server": Place(ADVERTISED, int(real_node.cluster.server.rpartition(":")[2])),
            "the API server's Service": Place(cluster_.SERVICE_ADDRESS, 443),
            "the node": Place(network.node, 10250),
            "the pods' gateway on the node": Place(f"{network.pods.rpartition('.')[0]}.1", 10250),
            "a private address": Place(internet.PRIVATE, internet.HTTP),
        }
        yield Neighbours(pods_by_name, places)
    rendered.clear(client)


@contextmanager
def node_local_dns(real_node: Node) -> Iterator[None]:
    """Let the node listen where NodeLocal DNSCache does: at an address of the node that is its own, on the port of DNS and another."""
    world, address = real_node.world, f"{NODE_LOCAL_DNS}/32"
    world.run(["ip", "addr", "add", address, "dev", "lo"])
    listeners = [
        subprocess.Popen(
            world.inside([sys.executable, "-m", "http.server", "--bind", NODE_LOCAL_DNS, str(port)]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for port in (53, OTHER_PORT)
    ]
    try:
        yield
    finally:
        for listener in listeners:  # each is nsenter and, in the same session, the server that it started
            os.killpg(listener.pid, signal.SIGKILL)
            listener.wait()
        world.run(["ip", "addr", "del", address, "dev", "lo"])


def failure(real_node: Node, pod: Pod, place: Place) -> str:
    """Return why a pod can't connect to a place; nothing where it can."""
    connect = f"nc -w 3 {place.address} {place.port} < /dev/null"
    ended = pods.tried(real_node, pod, "sh", "-c", connect)
    return ended.stderr or f"ended with {ended.returncode}" if ended.returncode else ""


@pytest.fixture(scope="module")
def before(real_node: Node, neighbours: Neighbours) -> dict[str, str]:
    """Return what a tenant's pod fails in, by the name of the place, while nothing applies the policies."""
    policies.lift(real_node.world)
    failures = {name: failure(real_node, neighbours.pods["ada"], place) for name, place in neighbours.places.items()}
    placeholder = neighbours.pods["placeholder"]
    assert failure(real_node, placeholder, neighbours.places["the internet"]) == ""
    assert failure(real_node, neighbours.pods["stranger"], Place(placeholder["status"]["podIP"], PORT)) == ""
    return failures


@pytest.fixture(scope="module")
def enforced(real_node: Node, neighbours: Neighbours, before: dict[str, str]) -> Iterator[Neighbours]:
    """Return the same tenants, once the policies apply."""
    policies.enforce(real_node.cluster, real_node.world)
    yield neighbours
    policies.lift(real_node.world)


@pytest.mark.parametrize("name", OPEN + CLOSED)
def test_without_policies_a_tenant_reaches(name: str, before: dict[str, str]) -> None:
    assert before[name] == ""


@pytest.mark.parametrize("name", OPEN)
def test_a_tenant_reaches(name: str, real_node: Node, enforced: Neighbours) -> None:
    assert failure(real_node, enforced.pods["ada"], enforced.places[name]) == ""


@pytest.mark.parametrize("name", CLOSED)
def test_a_tenant_is_kept_from(name: str, real_node: Node, enforced: Neighbours) -> None:
    assert REFUSED in failure(real_node, enforced.pods["ada"], enforced.places[name])


def test_a_placeholder_reaches_nothing_and_nothing_reaches_it(real_node: Node, enforced: Neighbours) -> None:
    placeholder = enforced.pods["placeholder"]
    for name in ("its own pod", "DNS", "the internet", "the API server"):
        assert REFUSED in failure(real_node, placeholder, enforced.places[name])
    for name in ("stranger", "kite", "gateway"):
        assert REFUSED in failure(real_node, enforced.pods[name], Place(placeholder["status"]["podIP"], PORT))


def test_a_tenant_resolves_names(real_node: Node, enforced: Neighbours) -> None:
    for name, address in (
        ("www.example.com", internet.PUBLIC),
        ("kube-dns.kube-system.svc.cluster.local", dns.ADDRESS),
    ):
        assert address in pods.tried(real_node, enforced.pods["ada"], "nslookup", name).stdout


def test_the_gateway_reaches_a_tenant_and_a_stranger_does_not(real_node: Node, enforced: Neighbours) -> None:
    tenant_place = Place(enforced.pods["ada"]["status"]["podIP"], PORT)
    assert failure(real_node, enforced.pods["gateway"], tenant_place) == ""
    for name in ("stranger", "kite"):
        assert REFUSED in failure(real_node, enforced.pods[name], tenant_place)
