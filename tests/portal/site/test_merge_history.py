"""A repeated read of the merges gives the same merges as a first read, and describes each commit once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.published import git

from allotment.adapters.git.repository import Repository
from allotment.portal.pages.change_history import Merge
from allotment.portal.site import merge_history
from allotment.portal.site.merge_history import MergeHistory


class Branch:
    """A branch of a repository, and a history that is read after each change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        git(root, "init", "-q", "-b", "main")
        git(root, "config", "user.name", "Ada")
        git(root, "config", "user.email", "ada@gpu.test")
        self.history = MergeHistory(Repository(root))
        self.change()

    def change(self) -> None:
        """Commit a change of a tenant."""
        path = self.root / "tenants/solo-ada/tenant.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        count = int(git(self.root, "rev-list", "--count", "--all"))
        path.write_text(f"{count}\n", encoding="utf-8")
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", f"Change {count}")

    def read(self) -> tuple[Merge, ...]:
        """Return the merges, which are the same in a new history."""
        commit = git(self.root, "rev-parse", "HEAD")
        merges = self.history.read(commit)
        assert merges == MergeHistory(Repository(self.root)).read(commit)
        return merges


@pytest.fixture
def branch(tmp_path: Path) -> Branch:
    return Branch(tmp_path)


def list_subjects(merges: tuple[Merge, ...]) -> list[str]:
    return [merge.subject for merge in merges]


def test_new_merges_come_first(branch: Branch) -> None:
    assert list_subjects(branch.read()) == ["Change 0"]
    branch.change()
    branch.change()
    assert list_subjects(branch.read()) == ["Change 2", "Change 1", "Change 0"]


def test_each_commit_is_described_once(branch: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    history, described = MergeHistory(Repository(branch.root)), list[str]()
    describe_merge = merge_history.describe_merge

    def describe_and_count(
        commit: str, time: int, author: str, subject: str, files: tuple[tuple[str, str], ...]
    ) -> Merge:
        described.append(subject)
        return describe_merge(commit, time, author, subject, files)

    monkeypatch.setattr(merge_history, "describe_merge", describe_and_count)
    for _ in range(3):
        history.read(git(branch.root, "rev-parse", "HEAD"))
        branch.change()
    assert described == ["Change 0", "Change 1", "Change 2"]


def test_after_a_push_with_force_the_removed_merges_are_gone(branch: Branch) -> None:
    branch.change()
    branch.read()
    git(branch.root, "reset", "-q", "--hard", "HEAD~1")
    assert list_subjects(branch.read()) == ["Change 0"]


def test_a_merge_into_another_line_is_read_again(branch: Branch) -> None:
    """The branch moves to a commit that has the old line as its second parent only."""
    git(branch.root, "checkout", "-q", "-b", "topic")
    (branch.root / "tenants/other").mkdir()
    (branch.root / "tenants/other/tenant.yaml").write_text("1\n", encoding="utf-8")
    git(branch.root, "add", "-A")
    git(branch.root, "commit", "-q", "-m", "Topic")
    git(branch.root, "checkout", "-q", "main")
    branch.change()
    assert list_subjects(branch.read()) == ["Change 2", "Change 0"]
    git(branch.root, "checkout", "-q", "topic")
    git(branch.root, "merge", "-q", "--no-ff", "-m", "Merge main", "main")
    assert list_subjects(branch.read()) == ["Merge main", "Topic", "Change 0"]


def test_a_commit_that_git_has_removed_is_no_fault(branch: Branch) -> None:
    branch.change()
    branch.read()
    git(branch.root, "reset", "-q", "--hard", "HEAD~1")
    git(branch.root, "reflog", "expire", "--expire=now", "--all")
    git(branch.root, "gc", "-q", "--prune=now")
    assert list_subjects(branch.read()) == ["Change 0"]


def test_the_number_of_merges_is_limited(branch: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_history, "MAX_MERGES", 2)
    branch.read()
    branch.change()
    branch.change()
    assert list_subjects(branch.read()) == ["Change 2", "Change 1"]
