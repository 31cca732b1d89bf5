"""Copies and outputs follow no link of a work tree, and follow links elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import Allot
from tests.support.new_repository import WHEEL
from tests.support.published import Place, git

from allotment.access.copy.upload import plan_upload
from allotment.adapters.argocd.login import find_config_file
from allotment.adapters.checkout_paths import (
    check_place,
    config_folder,
    is_in_checkout,
    refuse_committed_links,
    refuse_committed_repository,
)
from allotment.adapters.oidc.token_store import TokenStore
from allotment.problems import OperationRefused


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


@pytest.mark.parametrize("path", ["data", "data/set", "data/set/k", "data/../priv/set/k"])
def test_a_link_to_another_work_tree_is_refused(path: str, tmp_path: Path) -> None:
    for tree in ("w/.git", "priv/.git", "priv/set"):
        (tmp_path / tree).mkdir(parents=True)
    (tmp_path / "priv/set/k").touch()
    (tmp_path / "w/data").symlink_to(tmp_path / "priv")
    with pytest.raises(OperationRefused, match="is a link in a work tree"):
        refuse_committed_links(tmp_path / "w" / path)


@pytest.mark.parametrize("words", [("render", "--out"), ("portal", "build", "--out"), ("init", "--sample")])
def test_no_output_goes_through_a_link_of_the_checkout(
    words: tuple[str, ...], published: Place, allot: Allot, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (published.root / "build").symlink_to(tmp_path / "outside")
    repo = () if words[0] == "init" else ("--repo", published.root)
    more = ("--forge", "GitHub", "--program", WHEEL, "--url", "https://forge.example/a/b") if words[0] == "init" else ()
    result = allot(*words, published.root / "build/out", *repo, *more)
    assert (result.code, "is a link in a work tree" in result.err) == (2, True), result
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("instance", "create", "--from"),
        ("member", "add", "solo-ada", "ben", "--role", "Viewer", "--ssh-key"),
    ],
)
def test_no_file_is_read_through_a_link_of_the_checkout(
    words: tuple[str, ...], published: Place, allot: Allot, tmp_path: Path
) -> None:
    """The message would show the file of the person to which the link leads."""
    (tmp_path / ".netrc").write_text("machine github.com login ada password s3cret\n")
    (published.root / "table.csv").symlink_to(tmp_path / ".netrc")
    result = allot(*words, published.root / "table.csv", "--repo", published.root)
    assert (result.code, "s3cret" in result.out + result.err) == (2, False), result
    assert "is a link in a work tree" in result.err


@pytest.mark.parametrize(
    ("url", "is_refused"),
    [
        ("./x.git", True),
        ("file://{}/w/x.git", True),
        ("file://localhost{}/w/x%2egit", True),
        ("file://localhost{}/y.git", False),
        ("{}/w/.git", False),
        ("{}/w", False),
        ("https://forge.example/w/x.git", False),
        ("forge.example:w/x.git", False),
    ],
)
def test_only_paths_into_a_work_tree_are_refused_as_remotes(url: str, is_refused: bool, tmp_path: Path) -> None:
    for folder in ("w/.git", "w/x.git", "y.git"):
        (tmp_path / folder).mkdir(parents=True)
    if is_refused:
        with pytest.raises(OperationRefused, match="is a repository in a work tree"):
            refuse_committed_repository(url.format(tmp_path), tmp_path / "w")
    else:
        refuse_committed_repository(url.format(tmp_path), tmp_path / "w")


def test_a_home_folder_that_is_a_work_tree_is_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is a link, and if the user has no home."""
    (tmp_path / "ada/.git").mkdir(parents=True)
    (tmp_path / "ada/cache").mkdir()
    (tmp_path / "home").symlink_to("ada")
    (tmp_path / "ada/keys").symlink_to(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert not is_in_checkout(tmp_path / "home/cache")
    refuse_committed_links(tmp_path / "home/keys")
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert is_in_checkout(tmp_path / "home/cache")

    def fail() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", fail)
    assert is_in_checkout(tmp_path / "home/cache")


def test_a_configuration_in_a_work_tree_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "clone/.git").mkdir(parents=True)
    for value, folder in (("", ".config/x"), (".config", ".config/x"), (str(tmp_path / "own"), "own/x")):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert config_folder("x") == tmp_path / folder
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "clone/.config"))
    for read in (TokenStore.open_default, find_config_file):
        with pytest.raises(OperationRefused, match="is in a work tree, and a stranger may have committed it"):
            read()


def test_render_names_a_way_out_if_git_cannot_read_the_repository(published: Place, allot: Allot) -> None:
    out = published.root / "out"
    words = ("render", "--out", out, "--repo", published.root)
    (published.root / ".git/HEAD").rename(published.root / ".git/HEAD.away")
    assert allot(*words).code == 0, "a folder that doesn't exist has no committed files"
    again = allot(*words)
    assert (again.code, "or name a folder outside of the work tree" in again.err) == (2, True), again


@pytest.mark.parametrize("words", [("render",), ("portal", "build")])
def test_an_output_folder_has_no_files_of_the_repository(
    words: tuple[str, ...], published: Place, allot: Allot
) -> None:
    """A pull request can add files below an ignored folder, with the marker of an earlier output."""
    (published.root / "out").mkdir()
    for name in (".allotment-tree", ".allotment-portal", "evil.yaml"):
        (published.root / "out" / name).touch()
    git(published.root, "add", "--force", "out")
    published.merge()
    result = allot(*words, "--out", published.root / "out", "--repo", published.root)
    assert (result.code, "contains files of the repository" in result.err) == (2, True), result
    git(published.root, "rm", "-rq", "out")
    assert allot(*words, "--out", published.root / "out", "--repo", published.root).code == 0


@pytest.mark.parametrize("name", [".out.allotment-old", ".out.allotment-new"])
def test_render_adopts_no_committed_leftover(name: str, published: Place, allot: Allot) -> None:
    (published.root / name / "us-1").mkdir(parents=True)
    for path in (".allotment-tree", "us-1/evil.yaml"):
        (published.root / name / path).touch()
    published.merge()
    result = allot("render", "--out", published.root / "out", "--cluster", "eu-1", "--repo", published.root)
    assert (result.code, "contains files of the repository" in result.err) == (2, True), result
    assert not (published.root / "out").exists()


def test_the_portal_replaces_no_repository(published: Place, allot: Allot) -> None:
    (published.root / ".allotment-portal").touch()
    before = git(published.root, "rev-parse", "HEAD")
    for out in (published.root, published.root / "tenants/x", published.root / ".git/site"):
        result = allot("portal", "build", "--out", out, "--repo", published.root)
        assert (result.code, "contains declarations or is inside a folder of declarations" in result.err) == (2, True)
    assert git(published.root, "rev-parse", "HEAD") == before


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


def test_check_place_refuses_links_and_special_files(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in ("linked/x.yaml", "linked", "file/x.yaml", "folder"):
        with pytest.raises(OperationRefused, match="remove it first"):
            check_place(tmp_path, path)
    for path in ("file", "folder/x.yaml", "absent/deeper/x.yaml"):
        check_place(tmp_path, path)
