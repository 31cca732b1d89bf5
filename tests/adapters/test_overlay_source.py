"""Open documents take the place of their files, and only of regular files in the folders of declarations."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from allotment.adapters.folder_source import FolderSource
from allotment.adapters.overlay_source import OverlaySource
from allotment.declared.encoding import MAX_BYTES
from allotment.declared.layout import PLATFORM, Scope

ADA = Scope("tenant", "solo-ada")
WEBUI = "tenants/solo-ada/instances/webui.yaml"


def test_a_document_replaces_its_file(sample: Path) -> None:
    folder = FolderSource(sample)
    source = OverlaySource(folder, {WEBUI: b"x"})
    assert source.read(WEBUI) == b"x"
    assert source.read("platform/platform.yaml") == folder.read("platform/platform.yaml")
    assert source.scopes() == folder.scopes()
    assert source.files(ADA) == folder.files(ADA)
    assert source.files(PLATFORM) == folder.files(PLATFORM)


def test_a_scope_with_a_document_counts_as_changed(sample: Path) -> None:
    folder = FolderSource(sample)
    source = OverlaySource(folder, {WEBUI: b"x"})
    stamp = folder._compute_stamp(["tenants/solo-ada"], []) or [["tenants/solo-ada"], [], ""]
    assert source.files(ADA, stamped=True).stamp is None
    assert not source.is_unchanged(ADA, stamp)


def test_a_document_can_begin_a_scope(sample: Path) -> None:
    path = "tenants/new-team/tenant.yaml"
    source = OverlaySource(FolderSource(sample), {path: b"x"})
    assert Scope("tenant", "new-team") in source.scopes()[0]
    assert source.files(Scope("tenant", "new-team")).paths == (path,)


def test_a_large_document_is_cut_like_a_file(sample: Path) -> None:
    source = OverlaySource(FolderSource(sample), {WEBUI: b"x" * (MAX_BYTES + 9)})
    assert len(source.read(WEBUI)) == MAX_BYTES + 1


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "argo/x.yaml",
        "tenants/../secret.yaml",
        "tenants//x.yaml",
        "tenants/./x/tenant.yaml",
        "/etc/passwd",
        "tenants/linked/tenant.yaml",
        "tenants/solo-ada/instances/link.yaml",
        "tenants/solo-ada/tenant.yaml/x.yaml",
        "tenants/solo-ada/instances",
        "tenants/solo-ada/\0.yaml",
        "tenants/solo-ada/" + "x" * 300,
        "",
    ],
)
def test_a_document_elsewhere_is_ignored(path: str, sample: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "tenant.yaml").write_text("x")
    (sample / "tenants/linked").symlink_to(outside)
    (sample / "tenants/solo-ada/instances/link.yaml").symlink_to(outside / "tenant.yaml")
    folder = FolderSource(sample)
    source = OverlaySource(folder, {path: b"evil"})
    assert source.scopes() == folder.scopes()
    assert source.files(ADA) == folder.files(ADA)
    with contextlib.suppress(OSError, ValueError):
        assert source.read(path) != b"evil"
