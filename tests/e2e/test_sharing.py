"""Ways of sharing on the real scheduler: units of MPS beside time-slicing's, and devices that Kubernetes hands out (DRA).

KWOK's nodes have what NVIDIA's device plugin, or its DRA driver, would say of them; nothing is shared in them.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from tests.conftest import PROJECT, ROOTS, edit
from tests.controlplane import rendered, simulated
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import Cluster
from tests.e2e.conftest import Render
from tests.support.waiting import eventually
from tests.support.ways_of_sharing import INSTANCES, TENANT, declare_all

pytestmark = pytest.mark.e2e
POOLS = ("l4-mps", "l4-dra", "a100-dra")
STOCKS = {"l4-mps": 32, "l4-dra": 8, "a100-dra-1g": 20, "a100-dra-3g": 8}
SPACE = names.namespace(TENANT)


class Ways(NamedTuple):
    """A cluster with nodes, placeholders and instances of each way."""

    client: Client
    tree: Path

    def nodes(self, space: str, labels: str) -> Counter[str]:
        """Return how many running pods each node has; fails while one waits."""
        pods = [
            pod for pod in self.client.list("v1", "Pod", space, labels) if "deletionTimestamp" not in pod["metadata"]
        ]
        assert all(pod["status"].get("phase") == "Running" for pod in pods)
        return Counter(pod["spec"]["nodeName"] for pod in pods)

    def holds(self, stock: str, count: int) -> Counter[str]:
        """Wait until so many placeholders of a stock run, and return how many are on each node."""

        def count_placeholders() -> Counter[str] | None:
            nodes = self.nodes(names.STOCK_NAMESPACE, f"{names.STOCK}={stock}")
            return nodes if nodes.total() == count else None

        return eventually(count_placeholders, f"{count} placeholders of {stock}", 60)

    def pod(self, instance: str) -> Object:
        """Wait until an instance runs, and return its pod."""

        def find_running_pod() -> Object | None:
            pods = self.client.list("v1", "Pod", SPACE, f"{names.INSTANCE}={instance}")
            return next((pod for pod in pods if pod["status"].get("phase") == "Running"), None)

        return eventually(find_running_pod, f"{instance} to run", 30)


@pytest.fixture(scope="module")
def ways(empty_cluster: Cluster, render: Render, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """Return nodes that are full of placeholders; the instances are rendered and not yet applied."""
    root, client = tmp_path_factory.mktemp("ways"), empty_cluster.client
    for folder in ROOTS:
        shutil.copytree(PROJECT / folder, root / folder)
    declare_all(root)
    (root / "clusters/eu-1/stocks/l4-dra-pair.yaml").unlink()
    edit(root, "clusters/eu-1/stocks/l4-dra.yaml", "count: 4", "count: 8")
    stopped = tmp_path_factory.mktemp("stopped") / "root"
    shutil.copytree(root, stopped)
    for name in INSTANCES:
        (stopped / f"tenants/{TENANT}/instances/{name}.yaml").unlink()
    pools = {
        name: declared_pool.model
        for name, declared_pool in simulated.declared(root, "eu-1").of_kind(NodePool).items()
        if name in POOLS
    }
    nodes = [(f"{name}-{number}", pool) for name, pool in pools.items() for number in (1, 2)]
    for name, pool in nodes:
        client.create(simulated.gpu_node(name, pool))
        if pool.metadata.name != "l4-mps":
            client.create(simulated.resource_slice(name, pool))
    before = render(stopped, "eu-1")
    client.apply(*rendered.objects(before, "platform/cluster", "control/namespaces"))
    client.apply(*rendered.objects(before, *(f"platform/stock/{name}.rendered.yaml" for name in STOCKS)))
    yield Ways(client, render(root, "eu-1"))
    rendered.clear(client)  # before the nodes go: pods of a lost node wait long for their end
    for name, pool in nodes:
        if pool.metadata.name != "l4-mps":
            client.delete("resource.k8s.io/v1", "ResourceSlice", f"{name}-gpus")
        client.delete("v1", "Node", name)


def test_placeholders_fill_the_nodes_of_their_own_way(ways: Ways) -> None:
    """Four units of MPS for each of a node's four GPUs, although nodes that are time-sliced have the same resource free; of
    DRA as many placeholders on a node as it has devices, although they ask for none."""
    sliced = ways.client.list("v1", "Node", labels="pool=l4-ts4")
    assert {node["status"]["allocatable"]["nvidia.com/gpu.shared"] for node in sliced} == {"16"}
    assert ways.holds("l4-mps", 32) == {"l4-mps-1": 16, "l4-mps-2": 16}
    assert ways.holds("l4-dra", 8) == {"l4-dra-1": 4, "l4-dra-2": 4}
    assert set(ways.holds("a100-dra-1g", 20)) | set(ways.holds("a100-dra-3g", 8)) == {"a100-dra-1", "a100-dra-2"}
    assert ways.client.list("resource.k8s.io/v1", "ResourceClaim") == []
    ways.client.patch("apps/v1", "Deployment", "l4-mps", {"spec": {"replicas": 33}}, names.STOCK_NAMESPACE)

    def waits() -> bool:
        pods = ways.client.list("v1", "Pod", names.STOCK_NAMESPACE, f"{names.STOCK}=l4-mps")
        conditions = [
            condition
            for pod in pods
            for condition in pod["status"].get("conditions", ())
            if condition.get("reason") == "Unschedulable"
        ]
        return len(pods) == 33 and len(conditions) == 1

    eventually(waits, "the 33rd unit of MPS to wait")
    ways.client.patch("apps/v1", "Deployment", "l4-mps", {"spec": {"replicas": 32}}, names.STOCK_NAMESPACE)
    ways.holds("l4-mps", 32)


def test_an_instance_of_each_way_takes_a_placeholders_place(ways: Ways) -> None:
    client = ways.client
    for name in INSTANCES:
        client.apply(*rendered.objects(ways.tree, f"tenants/{TENANT}/compute/{name}.rendered.yaml"))
    pods = {name: ways.pod(name) for name in INSTANCES}
    nodes = {name: pod["spec"]["nodeName"].rpartition("-")[0] for name, pod in pods.items()}
    assert nodes == {"by-mps": "l4-mps", "by-dra": "l4-dra", "by-mig-dra": "a100-dra"}
    client.apply(*rendered.objects(ways.tree, *(f"platform/stock/{name}.rendered.yaml" for name in STOCKS)))
    assert {name: ways.holds(name, count - 1).total() for name, count in list(STOCKS.items())[:3]} == {
        "l4-mps": 31,
        "l4-dra": 7,
        "a100-dra-1g": 19,
    }

    claims = {
        pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]: name
        for name, pod in pods.items()
        if "extendedResourceClaimStatus" in pod["status"]
    }
    allocated = {
        claims[resource_claim["metadata"]["name"]]: resource_claim["status"]["allocation"]["devices"]["results"]
        for resource_claim in client.list("resource.k8s.io/v1", "ResourceClaim", SPACE)
    }
    assert sorted(allocated) == ["by-dra", "by-mig-dra"]
    for name, results in allocated.items():
        (result,) = results
        assert (result["driver"], result["pool"]) == ("gpu.nvidia.com", pods[name]["spec"]["nodeName"])
        assert ("1g-10gb" in result["device"]) is (name == "by-mig-dra")


def test_the_quota_counts_units_of_dra_once(ways: Ways) -> None:
    """A pod's extended resource, and the claim that the scheduler makes of it."""

    def used() -> bool:
        quota_usage = ways.client.get("v1", "ResourceQuota", "backstop", SPACE)["status"]["used"]
        assert {key: quota_usage[key] for key in quota_usage if key.startswith("requests.gpu.")} == {
            "requests.gpu.allotment.dev/gpu": "1",
            "requests.gpu.allotment.dev/mig-1g.10gb": "1",
            "requests.gpu.allotment.dev/mig-3g.40gb": "0",
        }
        return True

    eventually(used, "the quota to be counted")
