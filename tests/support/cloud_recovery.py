"""The recovery of a cloud after a fault."""

from __future__ import annotations

from tests.controlplane.processes import eventually
from tests.e2e.cloud import Cloud


def brought_back(cloud: Cloud) -> None:
    """Wait until the branch is what we published last, which may be newer than what it was wound back from."""

    def is_ours() -> bool:
        refs = cloud.published()
        return refs["refs/heads/rendered/eu-1"] == refs["refs/allotment/published/eu-1"]

    eventually(is_ours, "the branch to be brought back", 60)
