"""A full node pool grows: Karpenter buys nodes for the stock, and none beyond what its stocks need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from allotment.manifests import names
from tests.conftest import PROJECT
from tests.controlplane import processes, rendered
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import eventually
from tests.e2e.conftest import Render

pytestmark = pytest.mark.e2e


@pytest.fixture
def bought(growing_cluster: Cluster, render: Render) -> Iterator[Client]:
    """Return the cluster us-1 with its rendered platform as it is."""
    client = growing_cluster.client
    rendered.clear(client)
    client.apply(*rendered.objects(render(PROJECT, "us-1"), "platform"))
    yield client
    rendered.clear(client)


def gpus(client: Client, pool: str) -> list[str]:
    """Return the GPUs of each node of a pool. Its provider writes into `capacity` only what pods asked for."""
    return [
        one["status"]["allocatable"]["nvidia.com/gpu"]
        for one in client.list("v1", "Node", labels=f"{names.POOL}={pool}")
    ]


def placeholders(client: Client, stock: str, phase: str) -> int:
    found = client.list("v1", "Pod", names.STOCK_NAMESPACE, f"{names.STOCK}={stock}")
    return len([one for one in found if one["status"].get("phase") == phase])


def test_karpenter_listens_on_the_loopback(growing_cluster: Cluster) -> None:
    addresses = processes.listening(growing_cluster.folder)
    assert {ip for _, ip in addresses} == {processes.LOOPBACK}, addresses
    assert "karpenter" in {name for name, _ in addresses}


def test_nodes_come_for_the_stock_and_not_for_more_than_it(bought: Client) -> None:
    wanted = bought.get("apps/v1", "Deployment", "h100-one", names.STOCK_NAMESPACE)["spec"]["replicas"]
    assert wanted > 0
    eventually(lambda: placeholders(bought, "h100-one", "Running") == wanted, "nodes to come for placeholders", 120)
    assert gpus(bought, "h100")
    limit = int(bought.get("karpenter.sh/v1", "NodePool", "h100")["spec"]["limits"]["nvidia.com/gpu"])
    bought.patch("apps/v1", "Deployment", "h100-one", {"spec": {"replicas": limit + 4}}, names.STOCK_NAMESPACE)
    eventually(lambda: placeholders(bought, "h100-one", "Running") == limit, "the pool to be full", 120)
    eventually(lambda: placeholders(bought, "h100-one", "Pending") == 4, "those beyond the limit to wait")
    assert sum(map(int, gpus(bought, "h100"))) == limit
