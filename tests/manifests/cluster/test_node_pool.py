"""What Karpenter is told of a pool: what its nodes will have, how many there may be, and what never moves who runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, Allot, edit
from tests.support.sliced_pool import SLICED, declared

from allotment.manifests.yaml_text import load

MIG = SLICED.replace(
    "timeSlicing:\n      replicas: 4", 'mig:\n      config: mixed\n      devices:\n        "1g.6gb": 2'
)


def pool_of(root: Path, allot: Allot, out: Path, name: str) -> list[dict[str, Any]]:
    assert allot("render", "--repo", root, "--out", out, "--as-of", DAY).code == 0
    return load((out / f"us-1/platform/node-pools/{name}.rendered.yaml").read_bytes())


def test_a_sliced_pool_says_what_its_nodes_will_have(sample: Path, allot: Allot, tmp_path: Path) -> None:
    _, overlay = pool_of(declared(sample), allot, tmp_path / "out", "l4-ts4")
    assert (overlay["apiVersion"], overlay["kind"]) == ("karpenter.sh/v1alpha1", "NodeOverlay")
    assert overlay["spec"] == {
        "requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["l4-ts4"]}],
        "capacity": {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"},
    }


def test_a_pool_of_whole_gpus_says_so_too(sample: Path, allot: Allot, tmp_path: Path) -> None:
    kinds = pool_of(sample, allot, tmp_path / "out", "h100")
    assert [manifest["kind"] for manifest in kinds] == ["NodePool", "NodeOverlay", "EC2NodeClass"]
    assert kinds[1]["spec"]["capacity"] == {"nvidia.com/gpu": "8"}


def test_without_the_gate_there_is_no_overlay(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, "clusters/us-1/cluster.yaml", "  karpenter:\n    featureGates:\n      - NodeOverlay\n", "")
    assert [manifest["kind"] for manifest in pool_of(sample, allot, tmp_path / "out", "h100")] == [
        "NodePool",
        "EC2NodeClass",
    ]


def test_the_limits_are_whole_nodes_of_what_pods_ask_for(sample: Path, allot: Allot, tmp_path: Path) -> None:
    pool, _ = pool_of(declared(sample), allot, tmp_path / "out", "l4-ts4")
    assert pool["spec"]["limits"] == {"nvidia.com/gpu.shared": "48"}
    mig, overlay = pool_of(declared(sample, MIG), allot, tmp_path / "mig", "l4-ts4")
    assert mig["spec"]["limits"] == {"nvidia.com/mig-1g.6gb": "24"}
    assert overlay["spec"]["capacity"] == {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.6gb": "8"}
    whole, *_ = pool_of(sample, allot, tmp_path / "whole", "h100")
    assert whole["spec"]["limits"] == {"nvidia.com/gpu": "16"}


def test_nothing_of_a_pool_ends_what_runs(sample: Path, allot: Allot, tmp_path: Path) -> None:
    pool, _ = pool_of(declared(sample), allot, tmp_path / "out", "l4-ts4")
    template = pool["spec"]["template"]["spec"]
    assert template["expireAfter"] == "Never"
    assert "terminationGracePeriod" not in template
    assert pool["spec"]["disruption"]["budgets"] == [
        {"nodes": "1", "reasons": ["Drifted", "Underutilized"]},
        {"nodes": "100%", "reasons": ["Empty"]},
    ]


def test_a_generation_is_a_label_of_every_node(sample: Path, allot: Allot, tmp_path: Path) -> None:
    pool, _ = pool_of(declared(sample), allot, tmp_path / "out", "l4-ts4")
    assert pool["spec"]["template"]["metadata"]["labels"]["allotment.dev/generation"] == "3"
    whole, *_ = pool_of(sample, allot, tmp_path / "whole", "h100")
    assert "allotment.dev/generation" not in whole["spec"]["template"]["metadata"]["labels"]


def test_a_node_class_of_another_cloud_is_named(sample: Path, allot: Allot, tmp_path: Path) -> None:
    pool, _ = pool_of(declared(sample), allot, tmp_path / "out", "l4-ts4")
    named = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "gpu"}
    assert pool["spec"]["template"]["spec"]["nodeClassRef"] == named


def test_nodes_expire_only_where_that_is_declared(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(sample, "clusters/us-1/node-pools/h100.yaml", "    maxNodes: 2\n", "    maxNodes: 2\n    expireAfter: 720h\n")
    pool, *_ = pool_of(sample, allot, tmp_path / "out", "h100")
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "720h"
