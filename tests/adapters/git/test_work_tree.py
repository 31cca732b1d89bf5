"""A work tree as a commit: what Git would add, and nothing of it in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.published import git

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.work_tree import commit_of_folder, written_apart
from allotment.problems import Refused

FOLDERS = ("clusters", "platform", "tenants")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with two declarations and a file beside them, committed."""
    folder = tmp_path / 'a "b": c'
    for name in ("platform/platform.yaml", "tenants/ada/tenant.yaml", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@northlight.example")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def state(root: Path) -> dict[str, bytes]:
    """Return what lies in the repository's own folder."""
    return {str(one.relative_to(root)): one.read_bytes() for one in (root / ".git").rglob("*") if one.is_file()}


def files(root: Path, within: str = "") -> dict[str, str]:
    """Return what the commit of a folder has; the repository stays as it is."""
    before = state(root)
    repository = Repository(root / within)
    with written_apart(repository) as apart:
        commit = commit_of_folder(repository, root / within, FOLDERS, apart)
        assert repository.parents(commit) == [git(root, "rev-parse", "HEAD")]
        source = CommitSource(root / within, commit, repository)
        found = {path: source.read(path).decode() for scope in source.scopes()[0] for path in source.files(scope).paths}
        beside = repository.read_at(commit, "README.md")
        found |= {"README.md": beside.decode()} if beside is not None else {}
    assert state(root) == before
    assert not apart.exists()
    return found


def test_it_has_what_lies_there(root: Path) -> None:
    (root / "tenants/ada/tenant.yaml").write_text("changed\n")
    (root / "tenants/ada/members.yaml").write_text("new\n")
    (root / "platform/platform.yaml").unlink()
    (root / "README.md").write_text("also\n")
    (root / "stray.txt").write_text("x" * 1000)
    assert files(root) == {
        "README.md": "also\n",
        "tenants/ada/members.yaml": "new\n",
        "tenants/ada/tenant.yaml": "changed\n",
    }
    assert git(root, "status", "--short").split("\n")[0] == "M README.md"


def test_a_folder_that_git_ignores_counts_as_it_does_for_validate(root: Path) -> None:
    (root / ".gitignore").write_text("tenants/bob\n")
    (root / "tenants/bob").mkdir()
    (root / "tenants/bob/tenant.yaml").write_text("ignored\n")
    assert files(root)["tenants/bob/tenant.yaml"] == "ignored\n"


def test_what_was_saved_in_the_same_moment_is_seen(root: Path) -> None:
    file = root / "tenants/ada/tenant.yaml"
    time = (root / ".git/index").stat().st_mtime_ns
    text = file.read_text()
    file.write_text(text.upper())  # of the same size
    os.utime(file, ns=(time, time))
    assert files(root)["tenants/ada/tenant.yaml"] == text.upper()


def test_declarations_may_lie_in_a_folder_of_the_repository(root: Path) -> None:
    (root / "cloud").mkdir()
    for name in ("platform", "tenants"):
        (root / name).rename(root / "cloud" / name)
    assert files(root, "cloud") == {
        "README.md": "README.md\n",
        "platform/platform.yaml": "platform/platform.yaml\n",
        "tenants/ada/tenant.yaml": "tenants/ada/tenant.yaml\n",
    }


def test_what_is_staged_stays_staged(root: Path) -> None:
    (root / "tenants/ada/tenant.yaml").write_text("staged\n")
    git(root, "add", "-A")
    (root / "tenants/ada/tenant.yaml").write_text("later\n")
    assert files(root)["tenants/ada/tenant.yaml"] == "later\n"
    assert git(root, "show", ":tenants/ada/tenant.yaml") == "staged"


def test_a_link_is_a_link(root: Path) -> None:
    (root / "tenants/ada/members.yaml").symlink_to("tenant.yaml")
    repository = Repository(root)
    with written_apart(repository) as apart:
        source = CommitSource(root, commit_of_folder(repository, root, FOLDERS, apart), repository)
        assert [one.message for one in source.scopes()[1]] == ["is a symbolic link: replace it by the file itself"]


def test_no_hook_runs(root: Path) -> None:
    for name in ("pre-commit", "post-index-change", "reference-transaction"):
        hook = root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{root.parent}/ran'\n")
        hook.chmod(0o755)
    files(root)
    assert not (root.parent / "ran").exists()


def test_where_nothing_was_committed_or_is_checked_out_it_says_so(tmp_path: Path) -> None:
    for name, bare in (("new", False), ("bare", True)):
        git(tmp_path, "init", "-q", *(["--bare"] if bare else []), name)
        repository = Repository(tmp_path / name)
        words = "has no work tree: name the commit to plan with --head" if bare else "nothing is committed here yet"
        with written_apart(repository) as apart, pytest.raises(Refused, match=words):
            commit_of_folder(repository, tmp_path / name, FOLDERS, apart)


def test_afterwards_git_writes_where_it_did(root: Path) -> None:
    repository = Repository(root)
    with written_apart(repository) as apart:
        commit_of_folder(repository, root, FOLDERS, apart)
    ended = repository.git.run("hash_object", "-w", "--stdin", data=b"later")
    assert (ended.status, ended.said) == (0, "")
    assert git(root, "cat-file", "-t", ended.out.decode().strip()) == "blob"
