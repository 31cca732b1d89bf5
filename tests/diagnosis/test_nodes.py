"""Nodes against their pools: how many, what keeps pods away, what is left for them, how their GPUs are shared."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT, ROOTS, edit
from tests.diagnosis.healthy import Bed, Change, is_true, offers_of
from tests.support.ways_of_sharing import declare_all

from allotment.diagnosis import cluster_snapshot
from allotment.diagnosis.nodes import pod_request
from allotment.manifests import names
from allotment.observed.quantity import parse_quantity


def labels(bed: Bed, node: str) -> dict[str, str]:
    node_labels: dict[str, str] = bed.node(node)["metadata"]["labels"]
    return node_labels


def without(bed: Bed, node: str) -> None:
    bed.objects[cluster_snapshot.NODES].remove(bed.node(node))


def has(bed: Bed, node: str, resource: str, allocatable: str, capacity: str = "") -> None:
    status = bed.node(node)["status"]
    status["allocatable"] = {**status["allocatable"], resource: allocatable}
    status["capacity"] = {**status["capacity"], resource: capacity or allocatable}


def daemon(bed: Bed, node: str, cpu: str, memory: str, **more: Any) -> None:
    requests = {"requests": {"cpu": cpu, "memory": memory}}
    pod = {
        "metadata": {"name": "d", "namespace": "kube-system", "ownerReferences": [{"kind": "DaemonSet"}]},
        "spec": {"nodeName": node, "containers": [{"resources": requests}], **more},
    }
    bed.objects[cluster_snapshot.OTHER_PODS].append(pod)


def taint(bed: Bed, node: str, *taints: tuple[str, str]) -> None:
    bed.node(node)["spec"]["taints"] = [{"key": key, "effect": effect} for key, effect in taints]


OURS = (names.GPU_TAINT, "NoSchedule")
READY = {"status": {"conditions": [is_true("Ready")]}}


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        pytest.param(
            lambda bed: without(bed, "l4-ts4-3"),
            [
                "error [nodes] NodePool l4-ts4: 2 nodes have pool=l4-ts4, but static.nodes is 3: more units are on offer than the nodes have"
                " -> kubectl label node NODE pool=l4-ts4, or write static.nodes: 2 and lower its Stocks"
            ],
            id="too few",
        ),
        pytest.param(
            lambda bed: [without(bed, f"l4-whole-{number}") for number in (1, 2)],
            [
                "error [nodes] NodePool l4-whole: no node has pool=l4-whole, but static.nodes is 2: more units are on offer than the nodes have -> kubectl label node NODE pool=l4-whole, or write static.nodes: 1 and lower its Stocks"
            ],
            id="none",
        ),
        pytest.param(
            lambda bed: bed.objects[cluster_snapshot.NODES].append(
                {**bed.node("l4-ts4-3"), "metadata": {**bed.node("l4-ts4-3")["metadata"], "name": "l4-ts4-4"}}
            ),
            [
                "warning [nodes] NodePool l4-ts4: 4 nodes have pool=l4-ts4, but static.nodes is 3: the others are never allocated"
                " -> write static.nodes: 4, and raise its Stocks"
            ],
            id="too many",
        ),
        pytest.param(
            lambda bed: taint(bed, "l4-ts4-2"),
            [
                "error [nodes] Node l4-ts4-2: lacks the taint nvidia.com/gpu:NoSchedule, so pods without GPUs use the CPU and memory of units -> kubectl taint node l4-ts4-2 nvidia.com/gpu=true:NoSchedule"
            ],
            id="no taint",
        ),
        pytest.param(
            lambda bed: taint(bed, "l4-ts4-2", (names.GPU_TAINT, "PreferNoSchedule")),
            [
                "error [nodes] Node l4-ts4-2: lacks the taint nvidia.com/gpu:NoSchedule, so pods without GPUs use the CPU and memory of units -> kubectl taint node l4-ts4-2 nvidia.com/gpu=true:NoSchedule"
            ],
            id="another effect",
        ),
        pytest.param(
            lambda bed: taint(
                bed, "l4-ts4-2", OURS, ("team", "NoExecute"), ("node.kubernetes.io/unreachable", "NoSchedule")
            ),
            [
                "error [nodes] Node l4-ts4-2: has the taint team:NoExecute, which no unit tolerates, so nothing is scheduled there"
                " -> kubectl taint node l4-ts4-2 team:NoExecute-"
            ],
            id="a taint of others",
        ),
        pytest.param(
            lambda bed: bed.node("l4-ts4-2")["status"].update(conditions=[{"type": "Ready", "status": "Unknown"}]),
            [
                "error [nodes] Node l4-ts4-2: isn't Ready, but the units of pool l4-ts4 include it"
                " -> kubectl describe node l4-ts4-2"
            ],
            id="not ready",
        ),
        pytest.param(
            lambda bed: bed.node("l4-ts4-2")["spec"].update(unschedulable=True),
            [
                "warning [nodes] Node l4-ts4-2: is cordoned, but the units of pool l4-ts4 include it"
                " -> kubectl uncordon l4-ts4-2, when it works again"
            ],
            id="cordoned",
        ),
        pytest.param(
            lambda bed: bed.node("cpu-1")["status"].update(capacity={"nvidia.com/gpu": "2"}),
            [
                "warning [nodes] Node cpu-1: has GPUs, but the labels of no declared pool: its GPUs are not on offer"
                " -> add the labels of a pool's nodeSelector, or declare a NodePool"
            ],
            id="of no pool",
        ),
        pytest.param(
            lambda bed: daemon(bed, "l4-ts4-2", "1500m", "3Gi"),
            [
                "error [nodes] NodePool l4-ts4: cpu 44500m and memory 187Gi are left for pods on its smallest node (l4-ts4-2), but node.cpu is 46 and node.memory 190Gi: the units don't fit -> write cpu: 44, memory: 187Gi"
            ],
            id="DaemonSets take more than was thought",
        ),
        pytest.param(
            lambda bed: [has(bed, "l4-ts4-1", "memory", "199229440Ki"), daemon(bed, "l4-ts4-1", "0", "64Mi")],
            [
                "error [nodes] NodePool l4-ts4: cpu 46 and memory 189.9Gi are left for pods on its smallest node (l4-ts4-1), but node.cpu is 46 and node.memory 190Gi: the units don't fit -> write cpu: 46, memory: 189Gi"
            ],
            id="a little too little",
        ),
    ],
)
def test_nodes_of_a_pool(change: Change, lines: list[str]) -> None:
    bed = Bed()
    change(bed)
    assert bed.report_lines() == lines


PLUGIN = "look at the log of the device plugin's pod on the node"


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        pytest.param(
            lambda bed: labels(bed, "l4-ts4-2").update({names.DEVICE_PLUGIN_CONFIG: "time-slicing-2"}),
            [
                "error [device-plugin] Node l4-ts4-2: has nvidia.com/device-plugin.config=time-slicing-2, but pool l4-ts4 needs time-slicing-4 -> kubectl label node l4-ts4-2 nvidia.com/device-plugin.config=time-slicing-4 --overwrite"
            ],
            id="another configuration",
        ),
        pytest.param(
            lambda bed: labels(bed, "l4-whole-1").pop(names.DEVICE_PLUGIN_CONFIG),
            [
                "warning [device-plugin] Node l4-whole-1: lacks the label nvidia.com/device-plugin.config, but pool l4-whole needs exclusive: the device plugin uses its config.default"
                " -> kubectl label node l4-whole-1 nvidia.com/device-plugin.config=exclusive"
            ],
            id="by default",
        ),
        pytest.param(
            lambda bed: labels(bed, "l4-ts4-2").pop("nvidia.com/gpu.present"),
            [
                "error [device-plugin] Node l4-ts4-2: lacks the label nvidia.com/gpu.present=true, so no device plugin starts there"
                " -> kubectl label node l4-ts4-2 nvidia.com/gpu.present=true"
            ],
            id="the plugin doesn't find it",
        ),
        pytest.param(
            lambda bed: [
                labels(bed, "l4-ts4-2").pop("nvidia.com/gpu.present"),
                labels(bed, "l4-ts4-2").update({"feature.node.kubernetes.io/pci-10de.present": "true"}),
            ],
            [],
            id="node-feature-discovery finds it",
        ),
        pytest.param(
            lambda bed: labels(bed, "a100-mig-1").update(
                {names.MIG_CONFIG: "all-1g.10gb", "nvidia.com/mig.config.state": "failed"}
            ),
            [
                "error [device-plugin] Node a100-mig-1: has nvidia.com/mig.config=all-1g.10gb, but pool a100-mig needs all-balanced"
                " -> kubectl label node a100-mig-1 nvidia.com/mig.config=all-balanced --overwrite",
                "error [device-plugin] Node a100-mig-1: has nvidia.com/mig.config.state=failed: its GPUs aren't partitioned as in all-1g.10gb -> look at the log of the MIG manager's pod on the node",
            ],
            id="MIG",
        ),
        pytest.param(
            lambda bed: labels(bed, "a100-mig-1").update({"nvidia.com/mig.config.state": "success"}),
            [],
            id="MIG is cut",
        ),
        pytest.param(
            lambda bed: has(bed, "l4-ts4-2", "nvidia.com/gpu.shared", "12", "16"),
            [
                f"error [device-plugin] Node l4-ts4-2: has nvidia.com/gpu.shared: 12 of 16: the device plugin reports the others as unhealthy -> {PLUGIN}, and for Xid errors in the kernel log"
            ],
            id="a GPU is ill",
        ),
        pytest.param(
            lambda bed: [
                has(bed, "l4-ts4-2", "nvidia.com/gpu.shared", "0"),
                has(bed, "l4-ts4-2", "nvidia.com/gpu", "4"),
            ],
            [
                "error [device-plugin] Node l4-ts4-2: has nvidia.com/gpu: 4, but pool l4-ts4 declares 0: the GPUs aren't shared"
                f" -> {PLUGIN}, or declare the actual number",
                f"error [device-plugin] Node l4-ts4-2: has nvidia.com/gpu.shared: 0, but pool l4-ts4 declares 16: more units are on offer than the node has -> {PLUGIN}, or declare the actual number",
            ],
            id="not shared",
        ),
        pytest.param(
            lambda bed: has(bed, "l4-whole-2", "nvidia.com/gpu", "8"),
            [
                "warning [device-plugin] Node l4-whole-2: has nvidia.com/gpu: 8, but pool l4-whole declares 4: the others are never allocated"
                f" -> {PLUGIN}, or declare the actual number"
            ],
            id="more than declared",
        ),
        pytest.param(
            lambda bed: bed.objects[cluster_snapshot.PLUGIN_CONFIG][0]["data"].pop("time-slicing-4"),
            [
                "error [device-plugin] ConfigMap nvidia-device-plugin/allotment: lacks time-slicing-4: nodes with such a label share no GPUs, without an error -> let Argo CD sync the Application allotment--platform--eu-1"
            ],
            id="a key is missing",
        ),
        pytest.param(
            lambda bed: bed.objects[cluster_snapshot.PLUGIN_CONFIG][0]["data"].update({"mig": "version: v1\n"}),
            [
                "error [device-plugin] ConfigMap nvidia-device-plugin/allotment: differs from the rendered configuration in mig"
                " -> let Argo CD sync the Application allotment--platform--eu-1"
            ],
            id="a key is somebody else's",
        ),
    ],
)
def test_how_gpus_are_shared(change: Change, lines: list[str]) -> None:
    bed = Bed()
    change(bed)
    assert bed.report_lines() == lines


def test_nodes_without_a_zone_where_a_plan_spreads_over_zones() -> None:
    bed = Bed()
    for name in ("l4-ts4-1", "l4-ts4-3"):
        del bed.find_object(cluster_snapshot.NODES, name)["metadata"]["labels"]["topology.kubernetes.io/zone"]
    assert bed.report_lines() == [
        "warning [nodes] NodePool l4-ts4: l4-ts4-1, l4-ts4-3 lack the label topology.kubernetes.io/zone, so no copy of an instance"
        " with spread: [Zones] is scheduled there -> kubectl label node l4-ts4-1 topology.kubernetes.io/zone=ZONE, or remove Zones from the plans' allow.spread"
    ]


def test_a_node_of_two_pools(tmp_path: Path) -> None:
    for folder in ROOTS:
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    edit(tmp_path, "clusters/eu-1/node-pools/l4-whole.yaml", "pool: l4-whole", "rack: a")
    bed = Bed("eu-1", offers_of(tmp_path))
    labels(bed, "l4-ts4-1")["rack"] = "a"
    finding_lines = [line.partition(" -> ")[0] for line in bed.report_lines() if "two" in line or "twice" in line]
    assert finding_lines == [
        "error [nodes] Node l4-ts4-1: has the labels of the pools l4-ts4, l4-whole, so its units are on offer twice"
    ]


@pytest.fixture
def ways(tmp_path: Path) -> Bed:
    """Return a cluster with pools of MPS and of DRA."""
    for folder in ROOTS:
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    declare_all(tmp_path)
    return Bed("eu-1", offers_of(tmp_path))


def test_pools_of_mps_and_dra(ways: Bed) -> None:
    assert ways.report_lines() == []
    assert [line for line in ways.report_lines("ok") if "DRA" in line or "gpu.nvidia.com" in line]
    slices = ways.objects[cluster_snapshot.RESOURCE_SLICES]
    (first,) = [resource_slice for resource_slice in slices if resource_slice["spec"]["nodeName"] == "l4-dra-1"]
    first["spec"]["devices"].pop()
    assert [line.partition(" -> ")[0] for line in ways.report_lines()] == [
        f"error [device-plugin] Node l4-dra-1: has {len(first['spec']['devices'])} devices of gpu.nvidia.com in ResourceSlices, but pool l4-dra declares {len(first['spec']['devices']) + 1}"
    ]
    ways.refused[cluster_snapshot.RESOURCE_SLICES] = 403
    assert "permission for list of resourceslices.resource.k8s.io" in ways.report_lines()[0]


def bought(bed: Bed, name: str, *, initialized: bool = True, pool: str = "h100") -> dict[str, Any]:
    """Return a node that Karpenter bought."""
    more = {"karpenter.sh/initialized": "true"} if initialized else {}
    shape = {"cpu": "190", "memory": "1900Gi", "nvidia.com/gpu": "8"} if initialized else {}
    node = {
        "metadata": {
            "name": name,
            "labels": {
                names.POOL: pool,
                "nvidia.com/gpu.present": "true",
                "topology.kubernetes.io/zone": "zone-a",
                names.DEVICE_PLUGIN_CONFIG: "exclusive",
                **more,
            },
        },
        "spec": {"taints": [{"key": names.GPU_TAINT, "effect": "NoSchedule"}]},
        "status": {"allocatable": shape, "capacity": shape, "conditions": [is_true("Ready")]},
    }
    bed.objects[cluster_snapshot.NODES].append(node)
    return node


def test_nodes_that_karpenter_buys() -> None:
    bed = Bed("us-1")
    assert "ok [nodes] NodePool h100: no node at present" in bed.report_lines("ok")
    bought(bed, "a")
    bought(bed, "b", initialized=False)
    assert bed.report_lines() == [], "what isn't initialised yet has its labels and resources later"
    assert "ok [nodes] NodePool h100: 1 node, tainted and ready, 1 more starting" in bed.report_lines("ok")
    bought(bed, "c")["metadata"]["labels"][names.DEVICE_PLUGIN_CONFIG] = "time-slicing-2"
    assert bed.report_lines() == [
        "warning [nodes] NodePool h100: Karpenter has bought 3 nodes, but maxNodes is 2"
        " -> kubectl get nodeclaims --selector karpenter.sh/nodepool=h100; Karpenter removes empty nodes by itself",
        "warning [device-plugin] Node c: has nvidia.com/device-plugin.config=time-slicing-2, but pool h100 needs exclusive: the node was created before this declaration -> kubectl get nodeclaims --selector karpenter.sh/nodepool=h100; Karpenter replaces the node when no instance runs there",
    ]


def test_pod_request_counts_requests_as_the_scheduler_does() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec: dict[str, Any] = {"containers": [container("100m"), {}], "overhead": {"cpu": "10m"}}
    assert pod_request(spec, "cpu") == Decimal("0.11")
    spec["initContainers"] = [container("50m", restartPolicy="Always"), container("300m")]
    assert pod_request(spec, "cpu") == Decimal("0.36"), "an init container beside the sidecar before it"
    assert pod_request(spec, "memory") == 0
    spec["resources"] = {"requests": {"cpu": "2"}}
    assert pod_request(spec, "cpu") == Decimal("2.01"), "the pod's own request"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("44", "44"),
        ("43910m", "43.91"),
        ("1Ki", "1024"),
        ("2M", "2000000"),
        ("1e3", "1000"),
        ("1.5Gi", "1610612736"),
        ("0", "0"),
        ("", "0"),
        (None, "0"),
        ("12x", "0"),
    ],
)
def test_quantities(text: object, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


def test_pods_of_storages_find_no_node_where_each_has_gpus_or_a_taint() -> None:
    bed = Bed("eu-1")
    for number in (1, 2):
        taint(bed, f"cpu-{number}", ("team", "NoSchedule"))
    assert bed.report_lines() == [
        "error [nodes] nodes for storages: each node has GPUs or a taint, so preparation Jobs and file accessors can't run: a storage with prepare stays Preparing -> add a node without GPUs, or write storagePods in a static NodePool"
    ]


def test_karpenter_may_buy_a_node_for_pods_of_storages() -> None:
    bed = Bed("us-1")
    for number in (1, 2):
        without(bed, f"cpu-{number}")
    assert any("nodes for storages" in line for line in bed.report_lines())
    bed.objects[cluster_snapshot.KARPENTER_NODE_POOLS].append(
        {"metadata": {"name": "plain"}, "spec": {"template": {"spec": {}}}, **READY}
    )
    assert bed.report_lines() == []


def test_a_pool_that_takes_pods_of_storages_has_room_for_them(tmp_path: Path) -> None:
    for name in ROOTS:
        shutil.copytree(PROJECT / name, tmp_path / name)
    path, more = "clusters/eu-1/node-pools/l4-whole.yaml", "  storagePods:\n    cpu: 2\n    memory: 8Gi\n  static:\n"
    edit(tmp_path, path, "  static:\n", more)
    bed = Bed("eu-1", offers_of(tmp_path))
    for number in (1, 2):
        without(bed, f"cpu-{number}")
    for number in (1, 2):
        has(bed, f"l4-whole-{number}", "cpu", "46")
        has(bed, f"l4-whole-{number}", "memory", "198Gi")
    assert bed.report_lines() == [
        "error [nodes] NodePool l4-whole: cpu 46 and memory 198Gi are left for pods on its smallest node (l4-whole-1), but node.cpu"
        " is 46 and node.memory 190Gi, plus storagePods with 2 and 8Gi: the units don't fit -> write cpu: 44, memory: 190Gi"
    ]
    assert "the pools l4-whole" in "\n".join(bed.report_lines("ok"))
