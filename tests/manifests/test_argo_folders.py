"""The folders that Argo CD reads: none without its Application or marker, and Git names each one that something left."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from tests.support.published import git

from allotment.declared.inventory import compute_blob_id
from allotment.manifests import argo_folders
from allotment.manifests.yaml_text import load

GOLDEN = Path(__file__).parent / "golden"
# Two of each kind, or the one there is.
FOLDERS = (
    "control",
    *("control/argo/m", "control/argo/s", "control/namespaces/m", "control/namespaces/s"),
    *("platform/cluster", "platform/node-pools", "platform/stock"),
    *("tenants/ml-orbit/compute", "tenants/studio-kite/compute"),
    *("tenants/ml-orbit/storage", "tenants/studio-kite/storage"),
)
MOVED = "moved.rendered.yaml"


def tree(cluster: str) -> dict[str, bytes]:
    place = GOLDEN / cluster
    return {file.relative_to(place).as_posix(): file.read_bytes() for file in sorted(place.rglob("*.yaml"))}


def blobs(files: dict[str, bytes]) -> dict[str, str]:
    return {path: compute_blob_id(data) for path, data in files.items()}


def marked(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return a tree with the markers of what it holds now."""
    folder_paths = {argo_folders.folder_of(path) for path in files}
    return {**files, **dict(argo_folders.render_markers("eu-1", folder_paths, blobs(files)))}


class Branch:
    """A branch in a repository without a work tree's files, one commit a tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run(["git", "init", "-q", str(folder)], check=True)

    def commit(self, files: dict[str, bytes]) -> str:
        stream = [b"commit refs/heads/main\nmark :1\ncommitter a <a@b> 1 +0000\ndata 0\ndeleteall\n"]
        for path, data in files.items():
            stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
        text = b"".join([*stream, b"\n"])
        subprocess.run(["git", "-C", str(self.folder), "fast-import", "--quiet", "--force"], input=text, check=True)
        return git(self.folder, "rev-parse", "main")

    def named(self, base_commit: str, other: str) -> set[str]:
        """Return the folders of the files that Git names, as Argo CD asks it."""
        return {
            argo_folders.folder_of(path)
            for path in git(self.folder, "diff", "--name-only", base_commit, other).splitlines()
        }


@pytest.mark.parametrize("cluster", ["eu-1", "us-1"])
def test_every_folder_of_the_sample_is_read_and_marked(cluster: str) -> None:
    files = tree(cluster)
    assert list(argo_folders.find_unsynced_folders(files)) == []
    folder_paths = {argo_folders.folder_of(path) for path in files}
    assert len(folder_paths) > 10
    for path, data in argo_folders.render_markers(cluster, folder_paths, blobs(files)):
        assert files[path] == data, path


def test_a_file_that_moves_between_any_two_folders_is_seen_in_both(tmp_path: Path) -> None:
    branch, files = Branch(tmp_path), marked(tree("eu-1") | {"platform/node-pools/a.rendered.yaml": b"a: b\n"})
    text = files["tenants/studio-kite/compute/webui.rendered.yaml"]
    pairs = list(itertools.permutations(FOLDERS, 2))
    assert len(pairs) == 132
    commits = {folder: branch.commit(marked(files | {f"{folder}/{MOVED}": text})) for folder in FOLDERS}
    for folder, other in pairs:
        assert branch.named(commits[folder], commits[other]) == {folder, other}


def test_without_its_marker_git_does_not_name_the_folder_that_a_file_left(tmp_path: Path) -> None:
    branch, files = Branch(tmp_path), tree("eu-1")
    old_folder, other = "tenants/ml-orbit/compute", "tenants/studio-kite/compute"
    text = files[f"{other}/webui.rendered.yaml"]
    before = branch.commit(files | {f"{old_folder}/{MOVED}": text})
    after = branch.commit(files | {f"{other}/{MOVED}": text.replace(b"studio-kite", b"other-kite")})
    assert branch.named(before, after) == {other}, "this is why there are markers: Git detects a rename"


def test_a_marker_depends_on_what_lies_beside_it_alone() -> None:
    files = blobs(tree("eu-1"))
    markers = dict(argo_folders.render_markers("eu-1", ["platform/stock"], files))
    assert dict(argo_folders.render_markers("eu-1", ["platform/stock"], dict(reversed(files.items())))) == markers
    (data,) = markers.values()
    (marker,) = load(data)
    assert marker["metadata"]["name"] == "allotment--stock"
    assert marker["data"]["content"].startswith("sha256:")
    for change in (
        {"platform/stock/more.rendered.yaml": "0" * 40},
        {path: "1" * 40 for path in files if path.startswith("platform/stock/l4")},
    ):
        assert dict(argo_folders.render_markers("eu-1", ["platform/stock"], files | change)) != markers


@pytest.mark.parametrize(
    ("more", "less", "words"),
    [
        ({"platform/cluster/node-pools/h100.yaml"}, "", "no Application reads platform/cluster/node-pools/"),
        ({"platform/other/a.yaml"}, "", "no Application reads platform/other/"),
        ({"tenants/nobody/compute/a.rendered.yaml"}, "", "no Application reads tenants/nobody/compute/"),
        ({"stray.yaml"}, "", "no Application reads /"),
        (set(), "control/argo/s/solo-ada.rendered.yaml", "no Application reads tenants/solo-ada/compute/"),
        (set(), "control/tenants-s.rendered.yaml", "no Application reads control/argo/s/"),
        (set(), "control/platform.rendered.yaml", "no Application reads platform/cluster/"),
        (set(), "tenants/solo-ada/compute/allotment--marker.rendered.yaml", "tenants/solo-ada/compute/ has no marker"),
        (set(), "control/allotment--marker.rendered.yaml", "control/ has no marker"),
        (
            set(),
            "platform/node-pools/allotment--marker.rendered.yaml",
            "control/platform.rendered.yaml reads platform/node-pools/, which is empty",
        ),
    ],
)
def test_find_unsynced_folders_reports_a_missing_application_or_marker(more: set[str], less: str, words: str) -> None:
    assert words in list(argo_folders.find_unsynced_folders((tree("eu-1").keys() | more) - {less}))
