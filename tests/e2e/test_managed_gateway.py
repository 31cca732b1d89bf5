"""What Envoy Gateway makes of a managed Gateway on a cluster: a Deployment with its pods, and a Service that reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allotment.manifests import names
from allotment.manifests.cluster.managed_gateway import RETENTION_ANNOTATION
from tests.conftest import edit
from tests.controlplane import fixtures, gateway, rendered
from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import Render
from tests.e2e.node import access
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
TENANT = "studio-kite"
ADDRESS = "203.0.113.10"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository that declares a managed Gateway."""
    root = tmp_path_factory.mktemp("managed") / "repo"
    access.declare(root)
    return root


@pytest.fixture(scope="module")
def gateway_cluster(
    empty_cluster: Cluster, root: Path, render: Render, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Return a cluster with the rendered Gateway, and Envoy Gateway as its controller, once its proxies run."""
    fixtures.needs_a_node()  # Envoy Gateway has a root of its own, which takes what a node takes
    place = tmp_path_factory.mktemp("controller") / "gateway"
    apply(empty_cluster, render(root, "eu-1"))
    try:
        gateway.start_controller(empty_cluster, place, access.DOMAIN, access.NAMESPACE)
        eventually(lambda: proxies(empty_cluster, access.RETENTION_DAYS), "two proxies to run")
        yield empty_cluster
    finally:
        gateway.stop_controller(empty_cluster, place)


def apply(cluster: Cluster, tree: Path) -> None:
    """Apply the rendered objects of the Gateway and of a tenant's namespace as they are."""
    paths = [f"platform/cluster/{name}.rendered.yaml" for name in ("namespaces", "managed-gateway", "gateway")]
    cluster.client.apply(*rendered.objects(tree, *paths, f"control/namespaces/{TENANT[0]}/{TENANT}.rendered.yaml"))


def proxies(cluster: Cluster, days: int) -> list[Object]:
    """Return the proxies that run on a node, once there are two that know for how long the access log is kept."""
    pods = [pod for pod in cluster.client.list("v1", "Pod", access.NAMESPACE) if not is_deleted(pod)]
    states = [(pod["status"].get("phase"), pod["metadata"]["annotations"][RETENTION_ANNOTATION]) for pod in pods]
    if states != [("Running", str(days))] * 2:
        raise AssertionError(states)
    return pods


def is_deleted(manifest: Object) -> bool:
    """Return whether an object is about to go."""
    return "deletionTimestamp" in manifest["metadata"]


def service(cluster: Cluster) -> Object:
    """Return the Service of the proxies."""
    (balanced,) = (
        o for o in cluster.client.list("v1", "Service", access.NAMESPACE) if o["spec"]["type"] == "LoadBalancer"
    )
    return balanced


def selects(selector: dict[str, str], manifest: Object) -> bool:
    """Return whether a selector has these labels of an object."""
    return bool(selector.items() <= manifest["metadata"]["labels"].items())


def test_the_proxies_run_in_the_namespace_that_tenants_admit(gateway_cluster: Cluster) -> None:
    client = gateway_cluster.client
    running = proxies(gateway_cluster, access.RETENTION_DAYS)
    assert all(pod["spec"]["nodeName"] for pod in running)
    policy = client.get("networking.k8s.io/v1", "NetworkPolicy", "allow-in", names.namespace(TENANT))
    admitted = [
        peer["namespaceSelector"]
        for rule in policy["spec"]["ingress"]
        for peer in rule["from"]
        if "namespaceSelector" in peer
    ]
    assert admitted == [{"matchLabels": {"kubernetes.io/metadata.name": running[0]["metadata"]["namespace"]}}]


def test_the_service_reaches_the_proxies_and_keeps_the_address_of_the_client(gateway_cluster: Cluster) -> None:
    running = proxies(gateway_cluster, access.RETENTION_DAYS)
    spec = service(gateway_cluster)["spec"]
    assert spec["externalTrafficPolicy"] == "Local"
    assert {port["port"] for port in spec["ports"]} == {80, 443}
    assert spec["selector"] and all(selects(spec["selector"], pod) for pod in running)
    (budget,) = gateway_cluster.client.list("policy/v1", "PodDisruptionBudget", access.NAMESPACE)
    assert budget["spec"]["maxUnavailable"] == 1
    assert all(selects(budget["spec"]["selector"]["matchLabels"], pod) for pod in running)


def test_the_gateway_has_the_address_of_its_load_balancer(gateway_cluster: Cluster) -> None:
    client = gateway_cluster.client
    name = service(gateway_cluster)["metadata"]["name"]
    client.patch_status("v1", "Service", name, {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}, access.NAMESPACE)

    def listeners() -> dict[str, Any]:
        status = client.get("gateway.networking.k8s.io/v1", "Gateway", "edge", access.NAMESPACE)["status"]
        if [address["value"] for address in status.get("addresses", ())] != [ADDRESS]:
            raise AssertionError(status)
        return {
            listener["name"]: {kind["type"]: kind["status"] for kind in listener["conditions"]}
            for listener in status["listeners"]
        }

    states = eventually(listeners, "the Gateway to have the address")
    assert states.keys() == {"http-redirect", "https"}
    assert all(state["Accepted"] == state["ResolvedRefs"] == "True" for state in states.values()), states


def test_a_new_retention_replaces_the_pods_and_the_service_reaches_them(
    gateway_cluster: Cluster, root: Path, render: Render
) -> None:
    before = {pod["metadata"]["uid"] for pod in proxies(gateway_cluster, access.RETENTION_DAYS)}
    selector = service(gateway_cluster)["spec"]["selector"]
    declared = "retentionDays: {}\n".format
    edit(root, "clusters/eu-1/cluster.yaml", declared(access.RETENTION_DAYS), declared(7))
    apply(gateway_cluster, render(root, "eu-1"))
    running = eventually(lambda: proxies(gateway_cluster, 7), "the proxies to be replaced", 120)
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in running)
    assert service(gateway_cluster)["spec"]["selector"] == selector
    assert all(selects(selector, pod) for pod in running)
