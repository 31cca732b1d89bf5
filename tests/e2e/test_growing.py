"""A node pool grows by what waits for it, whole or shared GPUs, up to its nodes and no further; what is empty is given back."""

from __future__ import annotations

import time

import pytest

from allotment.manifests import names
from tests.controlplane import karpenter, processes
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import Cluster
from tests.e2e.growing import KEPT, MIXED, MPS, SLICED, STOCK, Growing, amounts, condition, events
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
EMPTY_FOR = 10  # seconds until Karpenter gives an empty node back, where a test doesn't wait for ten minutes


def exclusive(name: str, **node_selector: str) -> Object:
    """Return a pod of the stock's namespace that asks for a whole GPU."""
    resources = {"limits": {"nvidia.com/gpu": "1", "cpu": "1", "memory": "1Gi"}}
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources, "securityContext": security}
    spec = {"containers": [container], "nodeSelector": node_selector, "tolerations": [{"operator": "Exists"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"for": "test-growing"}},
        "spec": spec,
    }


def on(pods: list[Object]) -> set[str]:
    """Return the names of the nodes that pods are on."""
    return {pod["spec"]["nodeName"] for pod in pods}


def waits(client: Client, name: str, namespace: str) -> bool:
    """Return whether Karpenter said of a pod that nothing which it may buy has room for it."""
    return any("no instance type has enough resources" in event for event in events(client, name, namespace))


def test_karpenter_listens_on_the_loopback(growing_cluster: Cluster) -> None:
    addresses = processes.listening(growing_cluster.folder)
    assert {ip for _, ip in addresses} == {processes.LOOPBACK}, addresses
    assert "karpenter" in {name for name, _ in addresses}


def test_nodes_come_for_the_stock_and_not_for_more_than_the_pools(growing: Growing) -> None:
    client = growing.client
    wanted = client.get("apps/v1", "Deployment", "h100-one", STOCK)["spec"]["replicas"]
    assert wanted == 2
    growing.holds(h100_one=wanted)
    assert [amounts(node) for node in growing.nodes("h100").values()] == [{"nvidia.com/gpu": "8"}]
    assert client.get("karpenter.sh/v1", "NodePool", "h100")["spec"]["limits"] == {"nvidia.com/gpu": "16"}
    growing.scale("h100-one", 20)
    growing.holds(h100_one=16)
    eventually(lambda: len(growing.placeholders("h100-one", "Pending")) == 4, "those beyond the limit to wait")
    assert [amounts(node) for node in growing.nodes("h100").values()] == [{"nvidia.com/gpu": "8"}] * 2
    growing.scale("h100-one", 0)


def test_units_of_a_time_sliced_pool_share_the_node_that_the_first_bought(growing: Growing) -> None:
    """Each comes while the node of those before it isn't there yet; on its four GPUs there is room for 16."""
    assert growing.claims(SLICED) == []
    started = time.monotonic()
    for count in range(1, 5):
        growing.scale("slice", count)
        time.sleep(1.2)
    four = growing.holds(slice=4)
    print(f"\nfour slices on a new node: {time.monotonic() - started:.1f} s")
    ((name, node),) = growing.nodes(SLICED).items()
    assert on(four) == {name}
    assert amounts(node) == {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"}
    growing.scale("slice", 16)
    assert on(growing.holds(slice=16)) == {name}
    growing.scale("slice", 17)
    assert len(on(growing.holds(slice=17)) | set(growing.nodes(SLICED))) == 2
    assert len(growing.claims(SLICED)) == 2
    growing.give_back(SLICED)


def test_units_of_mps_share_one_node_and_wait_when_it_is_full(growing: Growing) -> None:
    growing.scale("mps", 17)
    held = growing.holds(mps=16)
    ((name, node),) = growing.nodes(MPS).items()
    assert on(held) == {name}
    assert amounts(node) == {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"}
    (claim,) = growing.claims(MPS)
    assert claim["spec"]["nodeClassRef"]["name"] == KEPT, "the node class that the pool refers to"
    assert len(growing.placeholders("mps", "Pending")) == 1
    growing.give_back(MPS)


def test_a_whole_gpu_is_never_one_that_is_sliced(growing: Growing) -> None:
    """A pod for a whole GPU that names the sliced pool has no place and buys none; one that doesn't goes to another pool."""
    client = growing.client
    growing.scale("slice", 1)
    growing.holds(slice=1)
    before = set(growing.nodes(SLICED))
    client.apply(exclusive("astray", **{names.POOL: SLICED}), exclusive("free"))
    try:
        eventually(lambda: waits(client, "astray", "default"), "Karpenter to say that it has nothing for it")
        node = eventually(lambda: client.get("v1", "Pod", "free", "default")["spec"].get("nodeName"), "a place")
        assert client.get("v1", "Node", node)["metadata"]["labels"][names.POOL] in ("h100", "l40s-spot")
        assert client.get("v1", "Pod", "astray", "default")["status"]["phase"] == "Pending"
        assert set(growing.nodes(SLICED)) == before
    finally:
        for name in ("astray", "free"):
            client.delete("v1", "Pod", name, "default")
    growing.give_back(SLICED)


def test_two_profiles_share_a_node_of_a_mig_pool_and_one_more_buys_the_next(growing: Growing) -> None:
    assert growing.claims(MIXED) == []
    growing.scale("mig-small", 16)
    growing.scale("mig-half", 8)
    both = growing.holds(mig_small=16, mig_half=8)
    ((name, node),) = growing.nodes(MIXED).items()
    assert on(both) == {name}
    assert amounts(node) == {
        "nvidia.com/gpu": "0",
        "nvidia.com/mig-1g.10gb": "16",
        "nvidia.com/mig-2g.20gb": "8",
        "nvidia.com/mig-3g.40gb": "8",
    }
    growing.scale("mig-half", 9)
    nine = growing.holds(mig_half=9)
    assert sorted(on(nine)) == sorted(growing.nodes(MIXED))
    assert len(on(nine)) == len(growing.claims(MIXED)) == 2
    growing.give_back(MIXED)


def test_a_burst_of_more_than_a_pool_holds_buys_its_nodes_and_no_more(growing: Growing) -> None:
    """Room is for 2 nodes of 8: of 20 that come at once 4 wait."""
    assert growing.claims(MIXED) == []
    growing.scale("mig-half", 20)
    held = growing.holds(mig_half=16)
    eventually(lambda: len(growing.placeholders("mig-half", "Pending")) == 4, "the rest to wait")
    nodes = growing.nodes(MIXED)
    assert on(held) == set(nodes)
    assert len(nodes) == len(growing.claims(MIXED)) == 2
    limited = [
        event
        for pod in growing.placeholders("mig-half", "Pending")
        for event in events(growing.client, pod["metadata"]["name"], STOCK)
        if "limits" in event
    ]
    assert limited, "Karpenter says that the pool's limits are what they wait for"
    growing.give_back(MIXED)
    assert {condition(claim, "Initialized") for claim in growing.claims(MIXED)} == set()


def test_an_instance_buys_the_first_node_of_a_cold_pool_which_goes_after_it(growing: Growing) -> None:
    """And a node with nothing but placeholders is none of those that are empty."""
    assert growing.claims(SLICED) == growing.claims(MIXED) == []
    growing.declare_stock("mig-small", warm=2)
    growing.render()
    growing.apply("platform/stock/mig-small.rendered.yaml")
    (warm,) = on(growing.holds(mig_small=2))
    for pool in (SLICED, MIXED):
        growing.patch_pool(pool, {"disruption": {"consolidateAfter": f"{EMPTY_FOR}s"}})
    started = time.monotonic()
    growing.instance("cold", "slice")
    pod = growing.running("cold")
    print(f"\na cold start: {time.monotonic() - started:.1f} s")
    assert [pod["spec"]["nodeName"]] == list(growing.nodes(SLICED))
    growing.stop("cold")
    started = time.monotonic()
    eventually(lambda: not growing.nodes(SLICED), "the empty node to be given back", 90)
    print(f"gone after its instance: {time.monotonic() - started:.1f} s")
    assert list(growing.nodes(MIXED)) == [warm]
    assert on(growing.holds(mig_small=2)) == {warm}
    growing.declare_stock("mig-small")
    growing.render()
    growing.apply("platform/stock/mig-small.rendered.yaml")
    growing.give_back(SLICED, MIXED)


def test_without_the_feature_gate_no_pool_of_slices_grows(growing: Growing, growing_cluster: Cluster) -> None:
    assert growing.claims(SLICED) == []
    karpenter.run(growing_cluster, gates=())
    try:
        growing.scale("slice", 1)
        (pod,) = eventually(lambda: growing.placeholders("slice", "Pending"), "a placeholder")
        name = pod["metadata"]["name"]
        eventually(lambda: waits(growing.client, name, STOCK), "Karpenter to say that it has nothing for it")
        assert growing.claims(SLICED) == []
    finally:
        karpenter.run(growing_cluster)
    (held,) = growing.holds(slice=1)
    assert (held["metadata"]["uid"], len(growing.claims(SLICED))) == (pod["metadata"]["uid"], 1)
    growing.give_back(SLICED)
