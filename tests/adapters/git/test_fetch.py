"""Git checks what it fetches, by whatever way, and what it finds is an error; old histories' harmless faults are none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.adapters.git.conftest import git, new_repository
from tests.adapters.git.http import served
from tests.adapters.git.malformed import REFUSED, named, write, write_commit, write_tree

from allotment.adapters.git.remote import Remote, UnsoundObjects
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import MalformedTree
from allotment.problems import OperationRefused

MAIN = "refs/heads/main"
# Of these three a remote can't even make a pack.
UNREADABLE = ("badTree", "emptyName|badTree", "nullSha1")
ONE_OF_A_WORD = {word: case for case, (word, _, _) in reversed(REFUSED.items()) if word != "zeroPaddedFilemode"}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "remote.git")], check=True)
    return tmp_path / "remote.git"


@pytest.fixture(params=["path", "file", "http"])
def url(request: pytest.FixtureRequest, bare: Path) -> Iterator[str]:
    with ExitStack() as stack:
        yield {
            "path": lambda: str(bare),
            "file": lambda: f"file://{bare}",
            "http": lambda: stack.enter_context(served(bare.parent, smart=True)) + bare.name,
        }[request.param]()


def point(bare: Path, commit: str) -> str:
    git(bare, "update-ref", MAIN, commit)
    return commit


def test_fetch_refuses_objects_that_git_does_not_write(url: str, bare: Path, tmp_path: Path) -> None:
    here = new_repository(tmp_path / "fresh")
    good = point(bare, write_commit(bare, write_tree(bare, named("a.yaml"))))
    assert Remote(here, url).fetch(MAIN) == {MAIN: good}
    bad = point(bare, write_commit(bare, write_tree(bare, REFUSED["a name twice"][2]), good))
    with pytest.raises(UnsoundObjects, match=r"holds objects that Git doesn't write: .*duplicateEntries"):
        Remote(here, url).fetch(MAIN)
    assert not here.has_object(bad)
    point(bare, write_commit(bare, write_tree(bare, named("b.yaml")), bad))
    with pytest.raises(UnsoundObjects):
        Remote(here, url).fetch(MAIN)


@pytest.mark.parametrize("word", ONE_OF_A_WORD)
def test_every_fault_of_a_tree_is_an_error(word: str, bare: Path, tmp_path: Path) -> None:
    here = new_repository(tmp_path / "fresh")
    bad = point(bare, write_commit(bare, write_tree(bare, REFUSED[ONE_OF_A_WORD[word]][2])))
    with pytest.raises(OperationRefused if word in UNREADABLE else UnsoundObjects):
        Remote(here, str(bare)).fetch(MAIN)
    assert not here.has_object(bad)


def test_old_histories_come_and_are_not_read_as_declarations(url: str, bare: Path, tmp_path: Path) -> None:
    padded = write_tree(bare, REFUSED["a zero in front"][2])
    text = f"tree {padded}\nauthor a<a@b.example> 1 +0000\ncommitter a <> 0001 +051800\n\nx\n"
    old = write(bare, "commit", text.encode())
    new = point(bare, write_commit(bare, write_tree(bare, named("a.yaml")), old))
    here = new_repository(tmp_path / "fresh")
    assert Remote(here, url).fetch(MAIN) == {MAIN: new}
    assert set(here.listing(new)) == {"a.yaml"}
    with pytest.raises(MalformedTree, match=padded):
        here.listing(old)


def test_fetch_accepts_objects_on_the_skip_list_of_git(bare: Path, tmp_path: Path) -> None:
    here = new_repository(tmp_path / "fresh")
    bad = write_tree(bare, REFUSED["not sorted"][2])
    commit = point(bare, write_commit(bare, bad))
    (tmp_path / "known").write_text(f"{bad}\n")
    git(here.folder, "config", "fetch.fsck.skipList", str(tmp_path / "known"))
    assert Remote(here, str(bare)).fetch(MAIN) == {MAIN: commit}
    with pytest.raises(MalformedTree):
        here.listing(commit)


def test_a_branch_of_ours_comes_whatever_others_left_there(url: str, bare: Path, tmp_path: Path) -> None:
    here = new_repository(tmp_path / "fresh")
    bad = point(bare, write_commit(bare, write_tree(bare, REFUSED["a name twice"][2])))
    assert Remote(here, url).fetch(MAIN, ours=True) == {MAIN: bad}
    with pytest.raises(MalformedTree):
        here.listing(bad)


def test_a_plain_web_server_which_git_does_not_check_is_read_as_strictly(bare: Path, repository: Repository) -> None:
    bad = point(bare, write_commit(bare, write_tree(bare, REFUSED["a name twice"][2])))
    git(bare, "update-server-info")
    with served(bare.parent, smart=False) as url:
        assert Remote(repository, url + bare.name).fetch(MAIN) == {MAIN: bad}
    with pytest.raises(MalformedTree):
        repository.listing(bad)
