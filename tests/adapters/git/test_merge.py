"""What differs between two trees, found without Git's diff, is what Git's diff says."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from tests.support.published import git

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.merge import (
    MAX_COMMITS,
    MergeConflict,
    is_same_by_rebase,
    list_changed_files,
    merge_tree_of,
)
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.tree_comparison import MAX_CHANGED

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@northlight.example")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def commit(root: Path) -> str:
    git(root, "add", "-A")
    git(root, *IDENTITY, "commit", "-q", "--allow-empty", "-m", "x")
    return git(root, "rev-parse", "HEAD")


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize("seed", range(8))
def test_list_changed_files_agrees_with_git_diff_tree(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = [f"{a}/{b}/{c}.yaml" for a in "xyz" for b in "pqr" for c in ("one", "two", "ä")] + ["top", "x.yaml"]

    def shake() -> str:
        for name in names:
            if chance.random() < 0.5:
                write(root, name, str(chance.randrange(3)))
            elif (root / name).exists():
                (root / name).unlink()
        if chance.random() < 0.5 and not (root / "link").is_symlink():
            (root / "link").symlink_to("top")
        return commit(root)

    before, after = shake(), shake()
    fields = git(root, "diff-tree", "-r", "-z", "--raw", "--no-renames", before, after).split("\0")
    wanted = []
    for meta, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old, new, _ = meta.removeprefix(":").split()
        nothing = "0" * 40
        wanted.append(
            (
                path,
                *(
                    ("" if blob == nothing else value)
                    for value, blob in ((old_mode, old), (mode, new), (old, old), (new, new))
                ),
            )
        )
    assert [tuple(change) for change in list_changed_files(Repository(root), before, after)] == sorted(wanted)


def test_a_folder_that_becomes_a_file_and_back(root: Path) -> None:
    write(root, "a/b", "1")
    first = commit(root)
    (root / "a/b").unlink()
    (root / "a").rmdir()
    write(root, "a", "1")
    second = commit(root)
    assert {
        (change.path, bool(change.old_blob), bool(change.blob))
        for change in list_changed_files(Repository(root), first, second)
    } == {
        ("a", False, True),
        ("a/b", True, False),
    }


def test_too_much_is_not_read_on(root: Path) -> None:
    first = commit(root)
    for at in range(MAX_CHANGED + 2):
        write(root, f"d/{at}", "x")
    with pytest.raises(LimitExceeded):
        list_changed_files(Repository(root), first, commit(root))


def test_the_merge_result_is_a_tree_and_a_conflict_is_named(root: Path) -> None:
    write(root, "a", "1\n")
    commit(root)
    git(root, "checkout", "-q", "-b", "feature")
    write(root, "b", "2\n")
    head = commit(root)
    git(root, "checkout", "-q", "main")
    write(root, "c", "3\n")
    base = commit(root)
    tree = merge_tree_of(Repository(root), base, head)
    assert git(root, "ls-tree", "--name-only", str(tree)).split() == ["a", "b", "c"]
    assert merge_tree_of(Repository(root), base, base) == git(root, "rev-parse", f"{base}^{{tree}}")
    write(root, "b", "4\n")
    assert merge_tree_of(Repository(root), commit(root), head) == MergeConflict(("b",))


def test_a_source_made_from_another_reads_as_one_of_its_own(root: Path) -> None:
    for name in ("one", "two"):
        write(root, f"tenants/acme/instances/{name}.yaml", name)
    before = commit(root)
    (root / "tenants/acme/instances/one.yaml").unlink()
    write(root, "tenants/acme/instances/two.yaml", "new")
    write(root, "tenants/beta/tenant.yaml", "beta")
    after = commit(root)
    base, whole = CommitSource(root, before), CommitSource(root, after)
    derived = base.with_changes(
        whole.tree, {change.path: change.blob for change in list_changed_files(Repository(root), before, after)}
    )
    assert derived.scopes() == whole.scopes()
    for scope in whole.scopes()[0]:
        assert derived.files(scope) == whole.files(scope)
        assert [derived.read(path) for path in derived.files(scope).paths] == [
            whole.read(path) for path in whole.files(scope).paths
        ]
    assert base.read("tenants/acme/instances/one.yaml") == b"one"


def rebased(root: Path, base: str, head: str) -> str | None:
    """Return the tree that `git rebase` lands; None where it stops at a conflict."""
    done = subprocess.run(
        ["git", *IDENTITY, "rebase", "-q", base, head], cwd=root, capture_output=True, text=True, check=False
    )
    if done.returncode:
        git(root, "rebase", "--abort")
        return None
    return git(root, "rev-parse", "HEAD^{tree}")


@pytest.mark.parametrize("seed", range(24))
def test_is_same_by_rebase_agrees_with_git(root: Path, seed: int) -> None:
    chance = random.Random(seed)

    def shake() -> str:
        write(root, chance.choice("abcdefgh"), str(chance.randrange(2)))
        return commit(root)

    start = shake()
    commits = []
    for _ in range(2):
        git(root, "checkout", "-q", "--detach", start)
        commits.append([shake() for _ in range(3)])
    (_, other, base), _ = commits
    twist = (
        ("cherry-pick", base),
        ("merge", "-q", "-s", "ours", "--no-edit", other),
        ("merge", "-q", "--no-edit", other),
        ("commit", "-q", "--allow-empty", "-m", "x"),
    )[seed % 4]
    subprocess.run(["git", *IDENTITY, *twist], cwd=root, capture_output=True, check=False)
    git(root, "reset", "-q", "--hard")
    head = git(root, "rev-parse", "HEAD")
    tree = merge_tree_of(Repository(root), base, head)
    wanted = rebased(root, base, head)
    if not isinstance(tree, MergeConflict):
        assert is_same_by_rebase(Repository(root), base, head, tree) == (wanted in (None, tree))


def lands_though_a_merge_changes_nothing(root: Path, base: str, head: str) -> str | None:
    """Return the tree that a rebase lands of a head whose merge changes nothing; that it does is seen."""
    tree = merge_tree_of(Repository(root), base, head)
    assert tree == git(root, "rev-parse", f"{base}^{{tree}}")
    assert not is_same_by_rebase(Repository(root), base, head, str(tree))
    return rebased(root, base, head)


def test_a_merge_commit_that_hides_a_change_is_seen(root: Path) -> None:
    write(root, "a", "good")
    base = commit(root)
    write(root, "a", "evil")
    evil = commit(root)
    git(root, "checkout", "-q", "--detach", base)
    commit(root)
    git(root, *IDENTITY, "merge", "-q", "-s", "ours", "--no-edit", evil)
    head = git(root, "rev-parse", "HEAD")
    assert lands_though_a_merge_changes_nothing(root, base, head) == git(root, "rev-parse", f"{evil}^{{tree}}")


def test_a_revert_of_what_the_base_has_too_is_seen(root: Path) -> None:
    write(root, "a", "old")
    start = commit(root)
    write(root, "a", "new")
    base = commit(root)
    git(root, "checkout", "-q", "--detach", start)
    write(root, "a", "new")
    git(root, "add", "-A")
    git(root, *IDENTITY, "commit", "-q", "-m", "the same, in other words")
    write(root, "a", "old")
    head = commit(root)
    assert lands_though_a_merge_changes_nothing(root, base, head) == git(root, "rev-parse", f"{start}^{{tree}}")


def test_is_same_by_rebase_accepts_a_head_that_merged_the_base(root: Path) -> None:
    write(root, "a", "1")
    start = commit(root)
    write(root, "b", "theirs")
    base = commit(root)
    git(root, "checkout", "-q", "--detach", start)
    write(root, "c", "own")
    commit(root)
    git(root, *IDENTITY, "merge", "-q", "--no-edit", base)
    write(root, "c", "own still")
    head = commit(root)
    assert is_same_by_rebase(Repository(root), base, head, str(merge_tree_of(Repository(root), base, head)))


def test_so_many_commits_are_too_many_beside_a_base_that_moved_on(root: Path) -> None:
    start = commit(root)
    write(root, "a", "1")
    base = commit(root)
    commit_command = "commit refs/heads/many\ncommitter a <a@northlight.example> 1 +0000\ndata 0\n"
    stream = f"{commit_command}from {start}\n" + commit_command * MAX_COMMITS
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet"], input=stream.encode(), check=True)
    head = git(root, "rev-parse", "many")
    assert git(root, "rev-list", "--count", f"{start}..{head}") == str(MAX_COMMITS + 1)
    with pytest.raises(LimitExceeded, match="more than 100 commits of its own: squash them"):
        is_same_by_rebase(Repository(root), base, head, str(merge_tree_of(Repository(root), base, head)))
    assert is_same_by_rebase(Repository(root), start, head, str(merge_tree_of(Repository(root), start, head))), (
        "in a row"
    )
