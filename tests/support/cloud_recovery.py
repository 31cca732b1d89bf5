"""The recovery of a cloud after a fault."""

from __future__ import annotations

from tests.e2e.cloud import Cloud
from tests.support.waiting import eventually


def brought_back(cloud: Cloud) -> None:
    """Wait until the branch is what we published last, which may be newer than what it was wound back from."""

    def is_ours() -> bool:
        refs = cloud.published()
        return refs["refs/heads/rendered/eu-1"] == refs["refs/allotment/published/eu-1"]

    eventually(is_ours, "the branch to be brought back", 60)
