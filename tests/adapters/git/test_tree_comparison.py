"""What differs between two trees, by which a listing of one becomes the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.adapters.git.conftest import SAID
from tests.adapters.git.malformed import entry, write, write_commit
from tests.conftest import scale_examples

from allotment.adapters.git import commits
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import MAX_LISTINGS, Repository
from allotment.adapters.git.tree_comparison import MAX_CHANGED
from allotment.adapters.git.trees import TreeReader
from allotment.problems import OperationRefused

NAMES = some.sampled_from(["a", "b", "a.yaml", "b-c", "\\x", "ü"])
FOLDERS = some.recursive(
    some.sampled_from([b"1\n", b"2\n"]), lambda below: some.dictionaries(NAMES, below, max_size=3), max_leaves=9
).filter(lambda folder: isinstance(folder, dict))


def flat(folder: dict[str, Any], path: str = "") -> dict[str, bytes]:
    """Return a folder's files by their paths."""
    files: dict[str, bytes] = {}
    for name, child in folder.items():
        files |= flat(child, f"{path}{name}/") if isinstance(child, dict) else {path + name: child}
    return files


def not_walked(*_: object, **__: object) -> None:
    raise AssertionError("the whole tree was read")


@given(before=FOLDERS, after=FOLDERS)
@settings(max_examples=scale_examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_listing_from_what_differs_is_the_listing(
    before: dict[str, Any], after: dict[str, Any], repository: Repository
) -> None:
    old, new = flat(before), flat(after)
    parent = commits.write_commit(repository, [], old, SAID)
    changes = dict.fromkeys(old.keys() - new.keys()) | new
    child = commits.write_commit(repository, [parent], changes, SAID, commits.NULL_COMMIT)
    assert list(repository.listing(parent)) == sorted(old)
    with pytest.MonkeyPatch.context() as patch:
        if not any("\\" in path for path in old.keys() | new.keys()):
            patch.setattr(TreeReader, "walk", not_walked)
        listing = repository.listing(child)
    assert list(listing.items()) == list(Repository(repository.folder).listing(child).items())
    assert {path: repository.read(blob) for path, blob in listing.items()} == new


def test_repository_lists_a_tree_with_too_many_changes(repository: Repository) -> None:
    first = commits.write_commit(repository, [], {"a.yaml": b"1\n"}, SAID)
    many = {f"{number}.yaml": b"1\n" for number in range(MAX_CHANGED + 1)}
    second = commits.write_commit(repository, [first], many, SAID)
    assert len(repository.listing(first)) == 1
    assert len(repository.listing(second)) == MAX_CHANGED + 2


def test_a_child_that_git_would_not_write_is_refused(repository: Repository) -> None:
    first = commits.write_commit(repository, [], {"a.yaml": b"1\n"}, SAID)
    blob = bytes.fromhex(write(repository.folder, "blob", b"2\n"))
    tree = write(repository.folder, "tree", entry("100644", "b.yaml", blob) * 2)
    second = write_commit(repository.folder, tree, first)
    assert repository.listing(first)
    for _ in range(2):
        with pytest.raises(OperationRefused, match="stands there twice"):
            repository.listing(second)


@pytest.mark.parametrize(
    "line", [b"parent ", b"parent \xff", b"parent zzz", b"parent " + b"1" * 40, b"parent x\nparent y"]
)
@pytest.mark.parametrize("behind", ["the tree", "the committer"])
def test_a_line_that_is_no_parent_costs_no_listing(behind: str, line: bytes, repository: Repository) -> None:
    tree = repository.tree_of(commits.write_commit(repository, [], {"a.yaml": b"1\n"}, SAID), "")
    who = b"author A <a@b.example> 1 +0000\ncommitter A <a@b.example> 1 +0000\n"
    header = who + line + b"\n" if behind == "the committer" else line + b"\n" + who
    commit = write(repository.folder, "commit", f"tree {tree}\n".encode() + header + b"\nx\n")
    assert set(repository.listing(commit)) == {"a.yaml"}
    if behind == "the committer":
        assert repository.parents(commit) == [], "as Git has it"


def test_parents_that_somebody_else_names_are_not_read(repository: Repository) -> None:
    tree = repository.tree_of(commits.write_commit(repository, [], {"a.yaml": b"1\n"}, SAID), "")
    assert tree is not None
    parents = [write_commit(repository.folder, tree, *(["1" * 40] * number)) for number in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        read: list[str] = []
        root = TreeReader.root
        patch.setattr(TreeReader, "root", lambda self, commit_id: read.append(commit_id) or root(self, commit_id))
        commit = write_commit(repository.folder, tree, *parents)
        assert set(repository.listing(commit)) == {"a.yaml"}
    assert read == [commit]


@pytest.mark.parametrize("limit", ["MOST_FILES", "PATH_BYTES"])
def test_a_limit_is_met_as_by_a_walk(limit: str, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    first = commits.write_commit(repository, [], {"a/one.yaml": b"1\n"}, SAID)
    second = commits.write_commit(repository, [first], {f"{name}/c/d.yaml": b"1\n" for name in "efg"}, SAID)
    if limit == "MOST_FILES":
        monkeypatch.setattr("allotment.adapters.git.repository.MOST_FILES", 6)  # there are 4 files in 7 folders
    else:
        monkeypatch.setattr("allotment.adapters.git.repository.MOST_FILES", 7)
        monkeypatch.setattr("allotment.adapters.git.trees.PATH_BYTES", 5)
    assert repository.listing(first)
    with pytest.raises(LimitExceeded):
        repository.listing(second)


def test_no_more_listings_are_kept_than_a_branch_or_two_need(repository: Repository, tmp_path: Path) -> None:
    last: list[str] = []
    for number in range(MAX_LISTINGS + 3):
        last = [commits.write_commit(repository, last, {f"{number}.yaml": b"1\n"}, SAID)]
        assert len(repository.listing(*last)) == number + 1
    assert len(repository._listings) == len(repository._listed_commits) == MAX_LISTINGS
