"""A full name of a ref is only that ref, whatever tags and branches a stranger has pushed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.git.conftest import SAID, git

from allotment.adapters.git.commits import write_commit, write_signed_tag
from allotment.adapters.git.remote import tracking_ref
from allotment.adapters.git.repository import Repository
from allotment.branches.status_branches import read_fetched_status_branches
from allotment.manifests.names import status_branch
from allotment.problems import OperationRefused

REF = "refs/heads/main"


@pytest.mark.parametrize("folder", ["refs/tags", "refs/heads", "refs/remotes", "refs"])
def test_a_ref_below_another_folder_is_not_the_named_ref(folder: str, repository: Repository) -> None:
    stranger, own = (write_commit(repository, [], {"a.yaml": text}, SAID) for text in (b"1", b"2"))
    name = tracking_ref(REF)
    git(repository.folder, "update-ref", f"{folder}/{name}", stranger)
    assert git(repository.folder, "rev-parse", name) == stranger, "Git itself takes it"
    assert (repository.find_commit(name), repository.find_refs(name)) == (None, {})
    assert repository.find_commit(f"{name}~0") is None
    with pytest.raises(OperationRefused, match="names no commit here"):
        repository.resolve_named_commit(name)
    git(repository.folder, "update-ref", name, own)
    assert repository.find_refs(name, "refs/heads/none") == {name: own}
    assert repository.find_commit(f"{name}~0") == own, "a revision that begins with a ref"


def test_find_refs_returns_the_commit_of_a_tag(repository: Repository) -> None:
    commit = write_commit(repository, [], {"a.yaml": b"1"}, SAID)
    git(
        repository.folder, "-c", "user.name=a", "-c", "user.email=a@b", "tag", "--annotate", "--message=a", "v1", commit
    )
    git(
        repository.folder, "update-ref", "refs/allotment/blob", git(repository.folder, "hash-object", "-w", "/dev/null")
    )
    assert repository.find_refs("refs/tags/v1", "refs/allotment/blob") == {"refs/tags/v1": commit}


def test_a_repository_that_git_refuses_to_read_is_an_error(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git reads no repository of another user."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(
        OperationRefused, match=r"belongs to another user, .* run `git config --global --add safe\.directory "
    ):
        repository.find_commit(REF)
    assert repository.find_refs() == {}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (REF, "warning: ignoring broken ref refs/heads/main"),
        ("packed-refs", "fatal: unexpected line in .*packed-refs: rubbish"),
    ],
)
def test_a_broken_ref_is_no_missing_commit(file: str, reason: str, repository: Repository) -> None:
    git(repository.folder, "symbolic-ref", "HEAD", REF)
    assert not repository.has_commits()
    (repository.git.common_folder / file).write_text("rubbish\n")
    with Repository(repository.folder) as damaged:
        for read in (damaged.check_refs, damaged.has_commits, lambda: damaged.resolve("main", "no commit")):
            with pytest.raises(OperationRefused, match=reason):
                read()


def test_a_tag_is_no_status_of_a_cluster(repository: Repository) -> None:
    stranger = write_commit(repository, [], {"cluster.yaml": b"1"}, SAID)
    git(repository.folder, "update-ref", f"refs/tags/{tracking_ref(status_branch('eu-1'))}", stranger)
    assert read_fetched_status_branches(repository, {"eu-1": None}, is_at_origin=True) == {"eu-1": []}


def test_a_signed_tag_that_is_gone_is_no_other_tag(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    repository.sign_with(tmp_path / "key")
    commit = write_commit(repository, [], {"a.yaml": b"1"}, SAID)
    git(repository.folder, "update-ref", "refs/tags/refs/tags/bill/2026-01", commit)
    run = repository.git.run

    def run_and_delete(command: str, *words: str, **options: Any) -> object:
        ended = run(command, *words, **options)
        if command == "tag":
            git(repository.folder, "update-ref", "-d", "refs/tags/bill/2026-01")
        return ended

    monkeypatch.setattr(repository.git, "run", run_and_delete)
    with pytest.raises(OperationRefused, match="another command deleted the tag"):
        write_signed_tag(repository, "bill/2026-01", commit, "a")


@pytest.mark.parametrize("name", ["a\x0bb", "a\u2028b", "a\rb"])
def test_the_name_of_a_folder_may_have_a_control_character(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    assert Repository(folder).git.work_tree == folder
