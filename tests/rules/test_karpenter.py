"""Karpenter's pools: slices need NodeOverlay; an age at which nodes go, and no room to replace one, are warnings."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import DAY, Allot, edit
from tests.manifests.cluster.test_node_pool import POOL, declared

H100 = "clusters/us-1/node-pools/h100.yaml"


def karpenter_findings(allot: Allot, root: Path) -> list[str]:
    return [line for line in allot("validate", "--repo", root, "--as-of", DAY).lines if "[karpenter]" in line]


def test_slices_need_an_overlay(sample: Path, allot: Allot) -> None:
    assert karpenter_findings(allot, declared(sample)) == []
    edit(sample, "clusters/us-1/cluster.yaml", "    featureGates:\n      - NodeOverlay\n", "    featureGates: []\n")
    assert karpenter_findings(allot, sample) == [
        f"{POOL}:12:3: spec.sharing: Karpenter would buy no node for slices of a GPU without its feature gate NodeOverlay,"
        " which cluster us-1 doesn't declare: turn it on there and write it under spec.karpenter.featureGates of the"
        " cluster, or make the pool static [karpenter]"
    ]
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 1


def test_an_age_at_which_nodes_go_is_a_warning(sample: Path, allot: Allot) -> None:
    assert karpenter_findings(allot, sample) == []
    edit(sample, H100, "    maxNodes: 2\n", "    maxNodes: 2\n    expireAfter: 720h\n")
    assert karpenter_findings(allot, sample) == [
        f"{H100}:16:18: spec.karpenter.expireAfter: warning: no instance is stopped, but a node takes none after 720h, and"
        " all nodes of that age go before any other comes: remove it, and raise spec.generation to replace them one at a time"
        " [karpenter]"
    ]
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 0


def test_nodes_that_are_to_be_replaced_without_room_for_another_are_a_warning(sample: Path, allot: Allot) -> None:
    edit(sample, H100, "spec:\n", "spec:\n  generation: 2\n")
    assert karpenter_findings(allot, sample) == [
        f"{H100}:16:15: spec.karpenter.maxNodes: warning: its stocks fill 2 of 2 nodes, and a node is replaced by one that comes"
        " first: while all are used none is replaced; write one more, or fewer units [karpenter]"
    ]
    edit(sample, H100, "    maxNodes: 2\n", "    maxNodes: 3\n")
    assert karpenter_findings(allot, sample) == []
