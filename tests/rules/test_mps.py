"""A pool that shares by MPS is a warning."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import DAY, Allot
from tests.support.ways_of_sharing import declare_all


def test_mps_is_a_warning(sample: Path, allot: Allot) -> None:
    declare_all(sample)
    result = allot("validate", "--repo", sample, "--as-of", DAY)
    assert result.code == 0
    warnings = [line for line in result.lines if "[mps]" in line]
    assert warnings == [
        f"clusters/eu-1/node-pools/{pool}.yaml:13:5: spec.sharing.mps: warning: NVIDIA's MPS daemon serves one user ID at "
        "a time unless it is started with -M, which device plugin 0.20 doesn't do, and each instance has its own user IDs: test two instances on a GPU before you sell it [mps]"
        for pool in ("l4-mps-film", "l4-mps")
    ]
