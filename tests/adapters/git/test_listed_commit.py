"""A commit with a cached listing has the same files, blobs and content keys as the commit itself."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.support.folder_commit import commit

from allotment.adapters.declaration_source import ScopeFiles
from allotment.adapters.file_cache import FileCache
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.listed_commit import open_listed_commit
from allotment.adapters.git.repository import Repository
from allotment.declared.layout import Scope
from allotment.problems import Problem

Listing = tuple[list[Scope], list[Problem], dict[Scope, ScopeFiles], dict[str, str | None]]
INSTANCE = "tenants/solo-ada/instances/webui.yaml"


@pytest.fixture(autouse=True)
def _cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def describe(source: TreeSource) -> Listing:
    scopes, problems = source.scopes()
    files = {scope: source.files(scope) for scope in scopes}
    return scopes, problems, files, {path: source.blob(path) for each in files.values() for path in each.paths}


def open_listed(root: Path, *, saves: bool = True) -> CommitSource:
    return open_listed_commit(root, "HEAD", Repository(root), partial(FileCache.load, "tree"), saves=saves)


def test_the_same_commit_is_not_listed_again(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(sample)
    expected = describe(CommitSource(sample, "HEAD"))
    assert describe(open_listed(sample)) == expected
    monkeypatch.setattr(TreeSource, "_regular_files", lambda source: pytest.fail("the tree is listed"))
    assert describe(open_listed(sample)) == expected
    assert (sample / INSTANCE).read_bytes() == open_listed(sample).read(INSTANCE)


def test_the_next_commit_is_listed_by_its_differences(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(sample)
    describe(open_listed(sample))
    (sample / INSTANCE).unlink()
    (sample / "tenants/solo-ada/README.md").write_text("new\n")
    (sample / "tenants/film-house/tenant.yaml").write_text("changed\n")
    commit(sample)
    expected = describe(CommitSource(sample, "HEAD"))
    with monkeypatch.context() as patch:
        patch.setattr(TreeSource, "_regular_files", lambda source: pytest.fail("the tree is listed"))
        assert describe(open_listed(sample, saves=False)) == expected
        assert describe(open_listed(sample)) == expected
        assert describe(open_listed(sample)) == expected, "from the listing of this commit"


def test_a_tree_with_other_files_is_listed_each_time(sample: Path) -> None:
    (sample / "tenants/solo-ada/link.yaml").symlink_to("tenant.yaml")
    commit(sample)
    for _ in range(2):
        scopes, problems, *_ = described = describe(open_listed(sample))
        assert [problem.path for problem in problems] == ["tenants/solo-ada/link.yaml"]
        assert scopes
        assert described == describe(CommitSource(sample, "HEAD"))


def test_a_listing_of_a_tree_that_is_gone_is_not_used(sample: Path, tmp_path: Path) -> None:
    commit(sample)
    describe(open_listed(sample))
    cache = FileCache.load("tree", "other key")
    assert cache.values == {}, "another program lists again"
    (listed,) = (tmp_path / "cache/allotment").glob("tree.json")
    tree = CommitSource(sample, "HEAD").tree
    listed.write_bytes(listed.read_bytes().replace(tree.encode(), b"0" * 40))
    assert describe(open_listed(sample)) == describe(CommitSource(sample, "HEAD")), "damaged: the checksum differs"
