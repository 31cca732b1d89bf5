"""What a stranger made is fetched with a budget, and lies apart until Git is through with it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.adapters.git.conftest import git, new_repository
from tests.adapters.git.deltas import write_deltas
from tests.adapters.git.http import served
from tests.adapters.git.malformed import REFUSED, named, write_commit, write_tree

from allotment.adapters.git import quarantine
from allotment.adapters.git.remote import FetchTooCostly, Remote, UnsoundObjects
from allotment.adapters.git.repository import Repository
from allotment.adapters.processes import Limit
from allotment.problems import OperationRefused

MAIN, HEAD = "refs/heads/main", "refs/pull/1/head"
AMPLE = Limit(60, 1024)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Return a remote with one commit on main."""
    return new_remote(tmp_path / "remote.git")


def new_remote(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", str(folder)], check=True)
    git(folder, "update-ref", MAIN, write_commit(folder, write_tree(folder, named("a.yaml"))))
    return folder


@pytest.fixture(scope="module")
def unfolding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a remote like the other, whose pull request is short and unfolds to half a gigabyte."""
    remote = new_remote(tmp_path_factory.mktemp("unfolding") / "remote.git")
    propose(remote, write_deltas(remote, git(remote, "rev-parse", MAIN), 64 << 20, 8))
    return remote


@pytest.fixture
def here(bare: Path, tmp_path: Path) -> Iterator[Repository]:
    """Return a repository, in a folder whose name Git has to be told with care, that has main."""
    with new_repository(tmp_path / 'odd:"name') as repository:
        Remote(repository, str(bare), keep=True).fetch(MAIN)
        yield repository


@pytest.fixture(params=["path", "relative", "smart", "plain"])
def url(request: pytest.FixtureRequest, bare: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "path":
            yield str(bare)
        elif request.param == "relative":
            yield f"../{bare.name}"
        else:
            yield stack.enter_context(served(bare.parent, smart=request.param == "smart")) + bare.name


def propose(bare: Path, commit: str) -> str:
    git(bare, "update-ref", HEAD, commit)
    git(bare, "update-server-info")
    return commit


def on_main(bare: Path, tree: str) -> str:
    return propose(bare, write_commit(bare, tree, git(bare, "rev-parse", MAIN)))


def objects(here: Repository) -> set[str]:
    folder = here.folder / ".git/objects"
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_fetch_limited_stores_the_objects_and_a_ref(url: str, bare: Path, here: Repository) -> None:
    head = on_main(bare, write_tree(bare, named("b.yaml")))
    remote = Remote(here, url, keep=True)
    assert remote.look(HEAD) == {HEAD: head}
    assert not here.has_object(head)
    remote.fetch_limited(AMPLE, HEAD, head)
    assert set(here.listing(head)) == {"b.yaml"}
    assert git(here.folder, "rev-parse", f"refs/allotment/seen/{HEAD}") == head
    git(here.folder, "fsck", "--connectivity-only", head)
    assert not [path for path in objects(here) if "tmp_" in path or path.endswith(".keep")]
    before = objects(here)
    remote.fetch_limited(Limit(0, 0), HEAD, head)
    assert objects(here) == before, "it is here"


@pytest.mark.process
@pytest.mark.parametrize(
    ("limit", "words"), [(Limit(0.2, 1024), "longer than 0.2 seconds"), (Limit(60, 50), "more than 50 MB of memory")]
)
def test_fetch_limited_stops_a_costly_fetch_and_leaves_nothing(
    limit: Limit, words: str, unfolding: Path, here: Repository
) -> None:
    head = git(unfolding, "rev-parse", HEAD)
    before, begun = objects(here), time.monotonic()
    with pytest.raises(FetchTooCostly, match=words):
        Remote(here, str(unfolding), keep=True).fetch_limited(limit, HEAD, head)
    assert time.monotonic() - begun < 60
    assert objects(here) == before
    assert not here.has_object(head)
    assert HEAD not in git(here.folder, "for-each-ref")


def test_fetch_limited_stops_a_large_fetch_and_leaves_nothing(
    unfolding: Path, here: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "MOST_BYTES", 10_000)
    head = git(unfolding, "rev-parse", HEAD)
    before = objects(here)
    with pytest.raises(FetchTooCostly, match="it has more than 0 MB"):
        Remote(here, str(unfolding)).fetch_limited(AMPLE, HEAD, head)
    assert objects(here) == before


def test_fetch_limited_refuses_objects_that_git_does_not_write(bare: Path, here: Repository) -> None:
    head = on_main(bare, write_tree(bare, REFUSED["a name twice"][2]))
    with pytest.raises(UnsoundObjects, match="duplicateEntries"):
        Remote(here, str(bare)).fetch_limited(AMPLE, HEAD, head)
    assert not here.has_object(head)


def test_fetch_limited_reports_a_silent_remote_without_the_password(here: Repository) -> None:
    with pytest.raises(OperationRefused, match=r"'https://127.0.0.1:1/x.git' doesn't answer") as caught:
        Remote(here, "https://bot:s3cret@127.0.0.1:1/x.git").fetch_limited(AMPLE, HEAD, "1" * 40)
    assert "s3cret" not in str(caught.value)
