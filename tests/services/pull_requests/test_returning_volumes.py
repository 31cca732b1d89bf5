"""A new storage with the name of a volume that a cluster still has: it keeps the data, and can't be smaller."""

from __future__ import annotations

import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

from allotment.observed.status import Storage, TenantStatus

CREATE = (
    "storage",
    "create",
    "solo-ada/archive",
    "--cluster",
    "eu-1",
    "--storage-spec",
    "block-ssd",
    "--yes",
    "--size",
)
RETURNS = "eu-1 still has the volume of the deleted storage archive, with 100Gi: it stays, with its data [deletion]"


@pytest.fixture
def leaving(published: Place) -> Place:
    """Return a repository whose cluster eu-1 still has the volume of a deleted storage."""
    volume = Storage("archive", "b", "Ready", "", claim="c-archive", size="100Gi")
    unclaimed = Storage("other", "b", "Pending", "", size="100Gi")
    published.report("eu-1", TenantStatus("solo-ada", "eu-1", storages=(volume, unclaimed)))
    git(published.root, "fetch", "-q", "origin", "+refs/allotment/status/*:refs/allotment/status/*")
    git(published.root, "fetch", "-q", "origin")
    return published


def test_a_smaller_storage_is_refused(leaving: Place, allot: Allot) -> None:
    result = allot(*CREATE, "50Gi", "--repo", leaving.root)
    assert result.code == 2
    assert "50Gi is less than the current 100Gi, and a volume can't shrink: write at least 100Gi [shrink]" in result.err
    assert not (leaving.root / "tenants/solo-ada/storages/archive.yaml").exists()


def test_a_storage_of_the_same_size_keeps_the_data(leaving: Place, allot: Allot) -> None:
    result = allot(*CREATE, "100Gi", "--repo", leaving.root)
    assert result.code == 0
    assert RETURNS in result.out + result.err


def test_a_storage_without_a_volume_is_new(leaving: Place, allot: Allot) -> None:
    words = tuple(word.replace("archive", "other") for word in CREATE)
    result = allot(*words, "50Gi", "--repo", leaving.root)
    assert result.code == 0
    assert "[deletion]" not in result.out + result.err
