"""Karpenter of the test bed behaves as AWS's: a claim has all of its instance type, a node its GPUs only from a device plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.controlplane import karpenter, processes
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.device_plugin import LAYOUTS, resources
from tests.support.waiting import eventually

POOL, NAMESPACE = "bare", "nvidia-device-plugin"
MINE = {"for": "test-karpenter"}
CONFIGS: dict[str, dict[str, Any]] = {
    "exclusive": {"flags": {"migStrategy": "none"}},
    "mig": {"flags": {"migStrategy": "mixed"}},
    **{
        f"{way}-4": {
            "sharing": {key: {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
        }
        for way, key in (("time-slicing", "timeSlicing"), ("mps", "mps"))
    },
    "not-renamed": {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 2}]}}},
}
SHARED = {"nvidia.com/gpu": 0, "nvidia.com/gpu.shared": 16}


@pytest.mark.parametrize(
    ("config", "mig", "announced"),
    [
        ("exclusive", "", {"nvidia.com/gpu": 4}),
        ("time-slicing-4", "", SHARED),
        ("mps-4", "", SHARED),
        ("not-renamed", "", {"nvidia.com/gpu": 8}),
        ("mig", "small-and-half", {"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-3g.40gb": 4}),
        ("mig", "", {"nvidia.com/gpu": 4}),
        ("exclusive", "all-balanced", {"nvidia.com/gpu": 4}),
    ],
)
def test_resources_lists_the_gpus_of_a_sharing_config_and_mig_layout(
    config: str, mig: str, announced: dict[str, int]
) -> None:
    assert resources(4, CONFIGS[config], LAYOUTS.get(mig, {})) == announced


@pytest.fixture(scope="module")
def client(growing_cluster: Cluster) -> Iterator[Client]:
    """Return a cluster with a node class and the device plugin's ConfigMap, and without what tests leave behind."""
    client = growing_cluster.client
    data = {key: yaml.safe_dump(config) for key, config in CONFIGS.items()}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "allotment", "namespace": NAMESPACE},
            "data": data,
        },
        {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": POOL},
            "spec": {
                "role": "gpu-node",
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"a": "b"}}],
                "securityGroupSelectorTerms": [{"tags": {"a": "b"}}],
            },
        },
    ]
    client.apply(*objects)
    yield client
    clear(client)
    for manifest in reversed(objects):
        client.delete(
            manifest["apiVersion"],
            manifest["kind"],
            manifest["metadata"]["name"],
            manifest["metadata"].get("namespace"),
        )
    eventually(lambda: not client.list("v1", "Namespace", labels=f"kubernetes.io/metadata.name={NAMESPACE}"), "its end")


def clear(client: Client) -> None:
    """Remove the pods, the pool and the overlay of a test, and wait until its nodes are gone."""
    for live_pod in client.list("v1", "Pod", "default", "for=test-karpenter"):
        client.delete("v1", "Pod", live_pod["metadata"]["name"], "default")
    client.delete("karpenter.sh/v1", "NodePool", POOL)
    client.delete("karpenter.sh/v1alpha1", "NodeOverlay", POOL)
    eventually(lambda: not client.list("karpenter.sh/v1", "NodeClaim"), "nodes to be given back")


def pool(instance_type: str, **labels: str) -> Object:
    """Return a pool whose nodes have these labels."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": POOL},
        "spec": {
            "template": {
                "metadata": {"labels": {"nvidia.com/gpu.present": "true", **labels}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": POOL},
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]}
                    ],
                    "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                },
            }
        },
    }


def declare(client: Client, *objects: Object) -> None:
    """Apply a pool and its overlay, and wait until Karpenter knows the pool: it looks again only after ten seconds."""
    client.apply(*objects)

    def known() -> bool:
        conditions = client.get("karpenter.sh/v1", "NodePool", POOL).get("status", {}).get("conditions", ())
        return any(
            pool_condition["type"] == "Ready" and pool_condition["status"] == "True" for pool_condition in conditions
        )

    eventually(known, "Karpenter to know the pool")


def overlay(**capacity: int) -> Object:
    """Return an overlay of the pool's nodes."""
    amounts = {f"nvidia.com/{name}": str(amount) for name, amount in capacity.items()}
    requirement = {"key": "karpenter.sh/nodepool", "operator": "In", "values": [POOL]}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": POOL},
        "spec": {"requirements": [requirement], "capacity": amounts},
    }


def pod(name: str, resource: str) -> Object:
    """Return a pod that asks for one of a resource of a GPU node."""
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"limits": {resource: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": MINE},
        "spec": {"containers": [container], "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    }


def of_nvidia(amounts: dict[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in amounts.items() if name.startswith("nvidia.com/")}


def bought(client: Client) -> tuple[Object, Object]:
    """Return the only claim and its node."""
    (claim,) = client.list("karpenter.sh/v1", "NodeClaim")
    return claim, client.get("v1", "Node", claim["status"]["nodeName"])


def condition(claim: Object, name: str) -> tuple[str, str]:
    return next(
        (claim_condition["status"], claim_condition["reason"])
        for claim_condition in claim["status"]["conditions"]
        if claim_condition["type"] == name
    )


def runs(client: Client, name: str) -> bool:
    return bool(client.get("v1", "Pod", name, "default")["status"].get("phase") == "Running")


def not_initialized(client: Client) -> tuple[Object, Object]:
    """Return claim and node once Karpenter waits for the node's resources."""

    def waits() -> tuple[Object, Object] | None:
        claim, node = bought(client)
        return (claim, node) if condition(claim, "Initialized") == ("Unknown", "ResourceNotRegistered") else None

    return eventually(waits, "Karpenter to wait for resources")


@pytest.mark.e2e
def test_a_claim_has_its_types_whole_capacity_and_its_node_no_gpu_before_the_device_plugin(client: Client) -> None:
    """No configuration has the label's name: then the plugin's init container fails, and never is there a GPU."""
    declare(client, pool("g6.12xlarge", **{"nvidia.com/device-plugin.config": "no-such"}))
    client.apply(pod("one", "nvidia.com/gpu"))
    claim, node = not_initialized(client)
    assert {name: claim["status"]["capacity"][name] for name in ("cpu", "memory", "nvidia.com/gpu")} == {
        "cpu": "46100m",
        "memory": "194570Mi",
        "nvidia.com/gpu": "4",
    }
    assert (claim["status"]["allocatable"]["cpu"], claim["status"]["allocatable"]["memory"]) == ("46", "190Gi")
    assert (node["status"]["allocatable"]["cpu"], node["status"]["allocatable"]["memory"]) == ("46", "190Gi")
    assert of_nvidia(node["status"]["capacity"]) == of_nvidia(node["status"]["allocatable"]) == {}
    labels = {"metadata": {"labels": {"nvidia.com/device-plugin.config": "exclusive"}}}
    client.patch("v1", "Node", node["metadata"]["name"], labels)
    eventually(lambda: runs(client, "one"), "the pod to run")
    eventually(lambda: condition(bought(client)[0], "Initialized")[0] == "True", "Karpenter to take the node for whole")
    _, node = bought(client)
    assert of_nvidia(node["status"]["capacity"]) == of_nvidia(node["status"]["allocatable"]) == {"nvidia.com/gpu": "4"}
    clear(client)


@pytest.mark.e2e
def test_an_overlay_is_the_claims_capacity_and_a_label_what_the_node_gets(client: Client) -> None:
    ways = [
        ("p4de.24xlarge", {}, {"gpu": 8}, "gpu"),  # without the label: config.default
        ("g6.12xlarge", {"config": "time-slicing-4"}, {"gpu": 0, "gpu.shared": 16}, "gpu.shared"),
        ("g6.12xlarge", {"config": "mps-4", "mps": "true"}, {"gpu": 0, "gpu.shared": 16}, "gpu.shared"),
        (
            "p4de.24xlarge",
            {"config": "mig", "mig": "all-balanced"},
            {"gpu": 0, "mig-1g.10gb": 16, "mig-2g.20gb": 8, "mig-3g.40gb": 8},
            "mig-2g.20gb",
        ),
    ]
    for instance_type, chosen, capacity, resource in ways:
        keys = {
            "config": "nvidia.com/device-plugin.config",
            "mig": "nvidia.com/mig.config",
            "mps": "nvidia.com/mps.capable",
        }
        labels = {keys[key]: value for key, value in chosen.items()}
        declare(client, overlay(**capacity), pool(instance_type, **labels))
        client.apply(pod("one", f"nvidia.com/{resource}"))
        eventually(lambda: runs(client, "one"), f"the pod to run on {chosen}")
        claim, node = bought(client)
        amounts = {f"nvidia.com/{name}": str(amount) for name, amount in capacity.items()}
        assert of_nvidia(node["status"]["allocatable"]) == amounts
        expected = {name: amount for name, amount in amounts.items() if amount != "0"}
        assert of_nvidia(claim["status"]["capacity"]) == of_nvidia(claim["status"]["allocatable"]) == expected
        clear(client)


@pytest.mark.e2e
def test_without_its_gate_an_overlay_says_nothing(client: Client, growing_cluster: Cluster) -> None:
    sliced = {"nvidia.com/device-plugin.config": "time-slicing-4"}
    karpenter.run(growing_cluster, gates=())
    try:
        declare(client, overlay(**{"gpu": 0, "gpu.shared": 16}), pool("g6.12xlarge", **sliced))
        client.apply(pod("one", "nvidia.com/gpu.shared"), pod("whole", "nvidia.com/gpu"))
        claim, _ = not_initialized(client)  # it bought for the pod that fits no node of the pool
        assert of_nvidia(claim["status"]["capacity"]) == {"nvidia.com/gpu": "4"}
        assert client.get("karpenter.sh/v1alpha1", "NodeOverlay", POOL).get("status", {}) == {}
    finally:
        karpenter.run(growing_cluster)
        clear(client)
    assert [process.name() for process in processes.running(growing_cluster.folder)].count("karpenter") == 1
