"""A change is compared with the reported storages: a volume that returns keeps its data, and a mount can have to wait."""

from __future__ import annotations

import pytest
from tests.conftest import Allot
from tests.support.published import Place, git

from allotment.observed.status import Preparation, Storage, TenantStatus

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


@pytest.mark.parametrize(
    ("state", "reason", "prepare", "warns"),
    [
        ("Failed", "SourceUnavailable", "Failed", True),
        ("Preparing", "PreparationRunning", "Running", True),
        ("Pending", "SourceUnprepared", "", True),
        ("Preparing", "PreparationPending", "", True),
        ("Ready", "VolumeBound", "Succeeded", False),
        ("Lost", "VolumeLost", "Succeeded", False),
        ("Pending", "Binding", "", False),
    ],
)
def test_a_new_mount_of_an_unprepared_storage_is_a_warning(
    state: str, reason: str, prepare: str, warns: bool, published: Place, allot: Allot
) -> None:
    preparation = Preparation("job-styles", 1, "hash", prepare) if prepare else None
    styles = Storage("styles", "b", state, reason, claim="c-styles", size="10Gi", prepare=preparation)
    published.report("eu-1", TenantStatus("solo-ada", "eu-1", storages=(styles,)))
    git(published.root, "fetch", "-q", "origin", "+refs/allotment/status/*:refs/allotment/status/*")
    git(published.root, "fetch", "-q", "origin")
    result = allot("instance", "mount", "solo-ada/webui", "styles:/styles", "--repo", published.root)
    assert result.code == 0
    warning = (
        f"tenants/solo-ada/instances/webui.yaml:17:13: spec.storages[1].name: warning: storage styles is {state} in eu-1: the"
        " instance doesn't run until the storage is prepared [preparation]"
    )
    assert (warning in result.out + result.err) is warns
    published.merge()
    again = allot("set", "instance/solo-ada/webui", "displayName=Mine", "--repo", published.root)
    assert again.code == 0
    assert "until the storage is prepared" not in again.out + again.err, "the storage was mounted before"
