"""A commit as a source: blobs only, nothing checked out, nothing strange believed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.adapters.git.malformed import entry, write
from tests.conftest import DAY, Allot, errors
from tests.support.folder_commit import commit
from tests.support.published import git

from allotment.adapters.declaration_source import ScopeFiles, Source, content_key
from allotment.adapters.file_cache import FileCache
from allotment.adapters.folder_source import MAX_DEPTH, FolderSource
from allotment.adapters.git import commit_source
from allotment.adapters.git.commit_source import CommitSource, TreeSource, open_listed_commit
from allotment.adapters.git.object_reader import LimitExceeded, ObjectReader
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.trees import TreeReader, check_limits
from allotment.declared.inventory import compute_blob_id
from allotment.declared.kinds import KINDS
from allotment.declared.layout import Scope
from allotment.problems import OperationRefused, Problem

Listing = tuple[list[Scope], list[Problem], dict[Scope, ScopeFiles], dict[str, str | None]]


@pytest.fixture(autouse=True)
def _cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def everything(source: Source) -> dict[str, bytes]:
    return {path: source.read(path) for scope in source.scopes()[0] for path in source.files(scope).paths}


def test_a_commit_reads_like_the_folder(sample: Path) -> None:
    commit(sample)
    assert everything(CommitSource(sample, "HEAD")) == everything(FolderSource(sample))


def test_a_content_key_is_the_same_from_both(sample: Path) -> None:
    commit(sample)
    source = CommitSource(sample, "main")
    for scope in source.scopes()[0]:
        files = FolderSource(sample).files(scope).paths
        assert source.files(scope).content_hash == content_key(
            [(path, compute_blob_id((sample / path).read_bytes())) for path in files]
        )


def test_commit_source_counts_added_files_toward_the_limit(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(sample)
    source = CommitSource(sample, "main")
    file_count = len(everything(source))
    path = "tenants/solo-ada/instances/{}.yaml"
    blob = source.blob(path.format("webui")) or ""
    monkeypatch.setattr(commit_source, "MAX_FILES", file_count + 1)
    assert source.with_changes(source.tree, {path.format("one"): blob}).blob(path.format("one")) == blob
    with pytest.raises(LimitExceeded, match=f"more than {file_count + 1} files"):
        source.with_changes(source.tree, {path.format(name): blob for name in ("one", "two")})


def test_prefetched_files_of_many_scopes_need_no_further_request(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(sample)
    contents = everything(FolderSource(sample))
    source = CommitSource(sample, "HEAD")
    source.prefetch([*contents, "tenants/nobody/tenant.yaml"])
    reader, requests = ObjectReader._request, list[str]()
    monkeypatch.setattr(ObjectReader, "_request", lambda *words: requests.append(words[1]) or reader(*words))
    assert {path: source.read(path) for path in contents} == contents
    assert requests == []
    source.prefetch([])
    assert source.read(INSTANCE) == contents[INSTANCE]
    assert requests


INSTANCE = "tenants/solo-ada/instances/webui.yaml"
CHANGES: dict[str, tuple[Callable[[Path], object], bool]] = {  # and whether what differs is enough
    "nothing": (lambda _: None, True),
    "a file": (lambda root: (root / INSTANCE).write_text("changed"), True),
    "a new file": (lambda root: (root / "tenants/solo-ada/instances/new.yaml").write_text("new"), True),
    "a new tenant": (lambda root: shutil.copytree(root / "tenants/solo-ada", root / "tenants/ada-solo"), True),
    "a tenant less": (lambda root: shutil.rmtree(root / "tenants/solo-ada"), True),
    "a cluster": (lambda root: (root / "clusters/eu-1/cluster.yaml").write_text("changed"), True),
    "the platform": (lambda root: (root / "platform/platform.yaml").unlink(), True),
    "its mode alone": (lambda root: (root / INSTANCE).chmod(0o755), True),
    "beside the declarations": (lambda root: (root / "notes.yaml").write_text("x"), True),
    "in no tenant": (lambda root: (root / "tenants/notes.yaml").write_text("x"), False),
    "a link": (lambda root: (root / "tenants/solo-ada/instances/link.yaml").symlink_to("webui.yaml"), False),
    "a link no more": (lambda root: put(root, "tenants/uni-lab/link.yaml", b"x"), False),
    "a name that is not UTF-8": (lambda root: put(root, b"tenants/solo-ada/\xff.yaml", b"x"), False),
    "too deep": (lambda root: put(root, f"tenants/solo-ada/{'x/' * MAX_DEPTH}y.yaml", b"x"), False),
    "a folder that was a file": (lambda root: put(root, f"{INSTANCE}/x.yaml", b"x"), True),
}


def put(root: Path, path: str | bytes, data: bytes) -> None:
    """Write a file, whatever lies where its folder is to be."""
    file = root / os.fsdecode(path)
    for folder in (file, *file.parents):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


@pytest.mark.parametrize("change", CHANGES)
def test_commit_source_like_another_equals_a_fresh_source(change: str, sample: Path) -> None:
    if change == "a link no more":
        (sample / "tenants/uni-lab/link.yaml").symlink_to("tenant.yaml")
    commit(sample)
    before = CommitSource(sample, "HEAD")
    before.scopes()
    make, enough = CHANGES[change]
    make(sample)
    subprocess.run(["git", "-C", str(sample), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(sample), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    fresh, read = CommitSource(sample, "HEAD"), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        walk = TreeReader.walk
        patch.setattr(TreeReader, "walk", lambda *words: read.append("whole") or walk(*words))
        source = CommitSource(sample, "HEAD", like=before)
        scopes = source.scopes()
    assert read == ([] if enough else ["whole"])
    assert scopes == fresh.scopes()
    assert [source.files(scope) for scope in scopes[0]] == [fresh.files(scope) for scope in scopes[0]]
    assert everything(source) == everything(fresh)


def test_an_empty_folder_that_comes_or_goes_is_listed_as_by_a_walk(sample: Path) -> None:
    """Git's own diff shows none. One that lies too deep is a problem."""
    commit(sample)
    repository = Repository(sample)
    deep = write(sample, "tree", b"")
    for name in "hgfedcb":
        deep = write(sample, "tree", entry("40000", name, bytes.fromhex(deep)))
    file = entry("100644", "platform.yaml", bytes.fromhex(write(sample, "blob", b"a: 1\n")))
    trees = [write(sample, "tree", file), write(sample, "tree", entry("40000", "a", bytes.fromhex(deep)) + file)]
    plain, with_deep = (write(sample, "tree", entry("40000", "platform", bytes.fromhex(tree))) for tree in trees)
    assert len(TreeSource(repository, with_deep).scopes()[1]) == 1
    for before, after in ((plain, with_deep), (with_deep, plain)):
        like = TreeSource(repository, before)
        like.scopes()
        assert TreeSource(repository, after, like).scopes() == TreeSource(repository, after).scopes()


def test_as_many_folders_as_a_walk_takes_are_taken(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(sample)
    before = CommitSource(sample, "HEAD")
    before.scopes()
    for name in "abcdef":
        put(sample, f"tenants/solo-ada/instances/{name}/{name}/x.yaml", b"x")
    commit(sample)
    monkeypatch.setattr(commit_source, "MAX_FILES", len(everything(before)) + 6)
    with pytest.raises(LimitExceeded):
        check_limits(everything(CommitSource(sample, "HEAD", like=before)), 10)
    monkeypatch.setattr("allotment.adapters.git.trees.PATH_BYTES", 20)
    with pytest.raises(LimitExceeded):
        CommitSource(sample, "HEAD").scopes()
    with pytest.raises(LimitExceeded):
        CommitSource(sample, "HEAD", like=before).scopes()


def test_limits_count_the_bytes_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.adapters.git.trees.PATH_BYTES", 60)
    check_limits([f"{at}/{'e' * 90}" for at in range(6)], 10)
    with pytest.raises(LimitExceeded):
        check_limits([f"{at}/{'é' * 90}" for at in range(6)], 10)


def test_the_folder_may_lie_deeper(sample: Path) -> None:
    commit(sample.parent)
    assert everything(CommitSource(sample, "HEAD")) == everything(FolderSource(sample))


def test_the_work_tree_does_not_count(sample: Path, allot: Allot) -> None:
    commit(sample)
    (sample / "platform/platform.yaml").unlink()
    assert allot("validate", "--repo", sample, "--commit", "HEAD", "--as-of", DAY).code == 0
    assert allot("validate", "--repo", sample, "--as-of", DAY).code == 1
    assert not (sample / "platform/platform.yaml").exists()


def test_strange_entries_are_problems_and_never_read(sample: Path, allot: Allot) -> None:
    commit(sample)
    head, blob = git(sample, "rev-parse", "HEAD"), git(sample, "rev-parse", "HEAD:platform/platform.yaml")
    index = f"120000 {blob}\ttenants/solo-ada/instances/link.yaml\n160000 {head}\ttenants/solo-ada/instances/sub\n100644 {blob}\ttenants/solo-ada/.gitattributes\n"
    subprocess.run(["git", "-C", str(sample), "update-index", "--index-info"], input=index.encode(), check=True)
    git(sample, "commit", "-q", "-m", "strange")
    result = allot("validate", "--repo", sample, "--commit", "HEAD", "--as-of", DAY)
    paths = [kind.path for kind in KINDS.values() if kind.scope == "tenant"]
    assert [line.split(": ", 1)[1] for line in result.lines if "solo-ada" in line] == [
        f"(file): no declaration belongs here: move the file to one of {', '.join(paths)} [layout]",
        "(file): is a symbolic link: replace it by the file itself [layout]",
        "(file): is a submodule: replace it by the file itself [layout]",
    ]


def test_an_oversize_blob_is_a_problem(sample: Path, allot: Allot) -> None:
    (sample / "tenants/solo-ada/members.yaml").write_bytes(b"a: 1\n" * 60_000)
    commit(sample)
    for more in (["--commit", "HEAD"], []):
        result = allot("validate", "--repo", sample, *more, "--as-of", DAY)
        assert (
            errors(result)[0]
            == "tenants/solo-ada/members.yaml:1:1: (file): the file has more than 262144 bytes: split it, or keep data elsewhere [size]"
        )


def test_no_repository_no_commit(tmp_path: Path) -> None:
    with pytest.raises(OperationRefused):
        CommitSource(tmp_path, "HEAD")


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
