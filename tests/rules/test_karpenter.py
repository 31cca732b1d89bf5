"""Karpenter's pools: slices need NodeOverlay; an age at which nodes go, and no room to replace one, are warnings."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import DAY, Allot, edit
from tests.support.sliced_pool import POOL, declared

H100 = "clusters/us-1/node-pools/h100.yaml"


def karpenter_findings(allot: Allot, root: Path) -> list[str]:
    return [line for line in allot("validate", "--repo", root, "--as-of", DAY).lines if "[karpenter]" in line]


def test_slices_need_an_overlay(sample: Path, allot: Allot) -> None:
    assert karpenter_findings(allot, declared(sample)) == []
    edit(sample, "clusters/us-1/cluster.yaml", "    featureGates:\n      - NodeOverlay\n", "    featureGates: []\n")
    assert karpenter_findings(allot, sample) == [
        f"{POOL}:12:3: spec.sharing: Karpenter creates no nodes for slices of a GPU without its feature gate NodeOverlay, "
        "which cluster us-1 doesn't declare: enable it in Karpenter and list it under spec.karpenter.featureGates of the cluster, or make the pool static [karpenter]"
    ]
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 1


def test_an_age_at_which_nodes_go_is_a_warning(sample: Path, allot: Allot) -> None:
    assert karpenter_findings(allot, sample) == []
    edit(sample, H100, "    maxNodes: 2\n", "    maxNodes: 2\n    expireAfter: 720h\n")
    assert karpenter_findings(allot, sample) == [
        f"{H100}:16:18: spec.karpenter.expireAfter: warning: a node older than 720h accepts no new instances, and "
        "Karpenter deletes it before it creates a replacement: remove the field, and increase spec.generation to replace the nodes in turn"
        " [karpenter]"
    ]
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 0


def test_nodes_that_are_to_be_replaced_without_room_for_another_are_a_warning(sample: Path, allot: Allot) -> None:
    edit(sample, H100, "spec:\n", "spec:\n  generation: 2\n")
    assert karpenter_findings(allot, sample) == [
        f"{H100}:16:15: spec.karpenter.maxNodes: warning: its stocks fill 2 of 2 nodes, and Karpenter creates a replacement "
        "before it deletes a node: while all nodes are used, none is replaced; increase maxNodes, or lower the stocks [karpenter]"
    ]
    edit(sample, H100, "    maxNodes: 2\n", "    maxNodes: 3\n")
    assert karpenter_findings(allot, sample) == []
