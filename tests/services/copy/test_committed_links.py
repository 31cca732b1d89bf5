"""A copy follows no link of a work tree, and links elsewhere as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.problems import OperationRefused
from allotment.services.copy.committed_links import refuse_committed_links
from allotment.services.copy.upload import plan_upload


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with a private file."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home/private").write_text("secret")
    return tmp_path / "home"


@pytest.mark.parametrize("path", ["dataset", "dataset/private", "dataset/new/deeper", "sub/file"])
def test_a_link_in_a_work_tree_is_refused(
    path: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "sub").mkdir()
    (tree / "dataset").symlink_to(home)
    (tree / "sub/file").symlink_to(home / "private")
    with pytest.raises(OperationRefused, match="is a link in a work tree, and a stranger may have committed it"):
        refuse_committed_links(tree / path)
    monkeypatch.chdir(tree / "sub")
    with pytest.raises(OperationRefused, match="is a link in a work tree"):
        plan_upload(Path("..") / path, "/x", False)


def test_a_link_elsewhere_is_followed(home: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(home)
    refuse_committed_links(tmp_path / "linked/private")
    (home / "tree/.git").mkdir(parents=True)
    (home / "tree/file").touch()
    refuse_committed_links(tmp_path / "linked/tree/file")
    assert [copy.remote for copy in plan_upload(tmp_path / "linked", "/x", False).files] == [
        "/x/private",
        "/x/tree/file",
    ]
