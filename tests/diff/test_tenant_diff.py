"""A node pool is lost in a plan only where its nodes go."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.diagnosis.healthy import offers_of

from allotment.diff.tenant_diff import node_pool_losses

KARPENTER, STATIC = "clusters/us-1/node-pools/h100.yaml", "clusters/eu-1/node-pools/l4-ts4.yaml"


def rename(root: Path, path: str, name: str) -> None:
    """Rename a pool in its file, and the file."""
    file = root / path
    file.write_text(
        file.read_text(encoding="utf-8").replace(f"  name: {file.stem}\n", f"  name: {name}\n"), encoding="utf-8"
    )
    file.rename(file.with_name(f"{name}.yaml"))


def lost(root: Path) -> list[str]:
    """Return the losses of a change from the sample to a folder."""
    return [f"{loss.subject} {loss.message}" for loss in node_pool_losses(offers_of(), offers_of(root))]


def test_a_renamed_static_pool_loses_nothing(sample: Path) -> None:
    rename(sample, STATIC, "l4-quarters")
    assert lost(sample) == []


def test_a_removed_static_pool_leaves_its_nodes(sample: Path) -> None:
    (sample / STATIC).unlink()
    assert lost(sample) == []


def test_a_renamed_or_removed_karpenter_pool_loses_its_nodes(sample: Path) -> None:
    words = "node pool us-1/h100 is removed: its nodes are deleted, and everything on them stops"
    rename(sample, KARPENTER, "h100-new")
    assert lost(sample) == [words]
    (sample / "clusters/us-1/node-pools/h100-new.yaml").unlink()
    assert lost(sample) == [words]


def test_a_pool_that_becomes_static_loses_its_nodes(sample: Path) -> None:
    static = (sample / STATIC).read_text(encoding="utf-8").replace("name: l4-ts4\n", "name: h100\n")
    (sample / KARPENTER).write_text(static, encoding="utf-8")
    assert lost(sample) == ["node pool us-1/h100 is removed: its nodes are deleted, and everything on them stops"]


def test_a_cluster_that_goes_loses_its_karpenter_pools(sample: Path) -> None:
    for name in ("us-1", "eu-1"):
        shutil.rmtree(sample / "clusters" / name)
    assert {words.split()[2].split("/")[0] for words in lost(sample)} == {"us-1"}
