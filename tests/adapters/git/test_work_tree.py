"""A work tree as a commit: the declarations that lie there, and nothing of it in the repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.published import git

from allotment.adapters.git.commit_source import CommitSource
from allotment.adapters.git.object_reader import LimitExceeded
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.sandbox_repository import sandbox_repository
from allotment.adapters.git.trees import SUBMODULE
from allotment.adapters.git.work_tree import checked_out_commit, commit_of_folder
from allotment.problems import OperationRefused

MOST = 10_000_000


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
    return {str(path.relative_to(root)): path.read_bytes() for path in (root / ".git").rglob("*") if path.is_file()}


@contextmanager
def planned(root: Path, within: str = "", most: int = MOST) -> Iterator[tuple[Repository, CommitSource]]:
    """Return the commit of a folder, and where it is; the repository stays as it is."""
    before, here = state(root), Repository(root / within)
    commit = checked_out_commit(here)
    with sandbox_repository(here, commit) as repository:
        folder_commit = commit_of_folder(here, repository, root / within, commit, most)
        assert repository.parents(folder_commit) == [commit]
        yield repository, CommitSource(root / within, folder_commit, repository)
        elsewhere = Path(repository.git.run_text("rev-parse", "--absolute-git-dir"))
    assert not elsewhere.exists()
    assert state(root) == before


def files(root: Path, within: str = "") -> dict[str, str]:
    """Return what the commit of a folder has."""
    with planned(root, within) as (repository, source):
        texts = {path: source.read(path).decode() for scope in source.scopes()[0] for path in source.files(scope).paths}
        beside = repository.read_at(source.commit, "README.md")
        return texts | ({"README.md": beside.decode()} if beside is not None else {})


def program(root: Path, name: str) -> str:
    """Return the path of a program that says in a file `ran` that it ran."""
    file = root.parent / name
    file.write_text(f"#!/bin/sh\ntouch '{root.parent}/ran'\ncat\n")
    file.chmod(0o755)
    return str(file)


def test_work_tree_commit_contains_changes_of_declarations_only(root: Path) -> None:
    (root / "tenants/ada/tenant.yaml").write_text("changed\n")
    (root / "tenants/ada/members.yaml").write_text("new\n")
    (root / "platform/platform.yaml").unlink()
    (root / "README.md").write_text("also\n")
    (root / "stray.txt").write_text("x" * 1000)
    assert files(root) == {
        "README.md": "README.md\n",
        "tenants/ada/members.yaml": "new\n",
        "tenants/ada/tenant.yaml": "changed\n",
    }
    assert git(root, "status", "--short").split("\n")[0] == "M README.md"


@pytest.mark.parametrize("name", [".DS_Store", "._tenant.yaml"])
def test_an_ignored_file_that_is_no_declaration_is_left_out(name: str, root: Path) -> None:
    (root / ".gitignore").write_text(f"{name}\n")
    before = files(root)
    (root / "tenants/ada" / name).write_text("x")
    assert files(root) == before
    (root / ".gitignore").write_text("")
    assert files(root).keys() - before.keys() == {f"tenants/ada/{name}"}


def test_a_folder_that_git_ignores_counts_as_it_does_for_validate(root: Path) -> None:
    (root / ".gitignore").write_text("tenants/bob\n")
    (root / "tenants/bob").mkdir()
    (root / "tenants/bob/tenant.yaml").write_text("ignored\n")
    assert files(root)["tenants/bob/tenant.yaml"] == "ignored\n"


def test_work_tree_commit_contains_a_save_within_the_same_moment(root: Path) -> None:
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


def test_work_tree_commit_leaves_the_index_alone(root: Path) -> None:
    (root / "tenants/ada/tenant.yaml").write_text("staged\n")
    git(root, "add", "-A")
    (root / "tenants/ada/tenant.yaml").write_text("later\n")
    assert files(root)["tenants/ada/tenant.yaml"] == "later\n"
    assert git(root, "show", ":tenants/ada/tenant.yaml") == "staged"


def test_a_link_is_a_link(root: Path) -> None:
    (root / "tenants/ada/members.yaml").symlink_to("tenant.yaml")
    with planned(root) as (_, source):
        assert [problem.message for problem in source.scopes()[1]] == [
            "is a symbolic link: replace it by the file itself"
        ]


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
        words = "has no work tree: name the commit to plan with --head" if bare else "nothing is committed here yet"
        with pytest.raises(OperationRefused, match=words):
            checked_out_commit(Repository(tmp_path / name))
    (tmp_path / "new/.git/HEAD").write_text(f"{40 * '1'}\n")
    with pytest.raises(
        OperationRefused, match="the commit of HEAD is missing: fetch it, or clone the repository again"
    ):
        checked_out_commit(Repository(tmp_path / "new"))


def test_no_filter_and_no_monitor_runs(root: Path) -> None:
    (root / ".gitattributes").write_text("*.yaml filter=own\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Attributes")
    git(root, "config", "filter.own.clean", program(root, "clean"))
    git(root, "config", "filter.own.required", "true")
    git(root, "config", "core.fsmonitor", program(root, "monitor"))
    (root / "tenants/ada/tenant.yaml").write_text("changed\n")
    assert files(root)["tenants/ada/tenant.yaml"] == "changed\n"
    assert not (root.parent / "ran").exists()


def test_work_tree_commit_runs_no_filter_of_a_nested_repository(root: Path) -> None:
    inner = root / "tenants/ada/inner"
    for folder in (inner, root / "beside"):
        folder.mkdir()
        git(folder, "init", "-q")
        (folder / "file.txt").write_text("one\n")
        (folder / ".gitattributes").write_text("* filter=own\n")
        git(folder, "add", "-A")
        git(folder, *("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example"), "commit", "-q", "-m", "Begin")
        git(root, "-c", "advice.addEmbeddedRepo=false", "add", str(folder))
        git(folder, "config", "filter.own.clean", program(root, "clean"))
        (folder / "file.txt").write_text("two\n")
    git(root, "commit", "-q", "-m", "Nested")
    with planned(root) as (repository, source):
        problems = [(problem.path, problem.message) for problem in source.scopes()[1]]
        assert problems == [("tenants/ada/inner", "is a submodule: replace it by the file itself")]
        entry = repository.trees.find_entry(repository.trees.root(source.commit), "tenants/ada/inner")
        assert entry is not None
        assert (entry.mode, entry.id) == (SUBMODULE, git(inner, "rev-parse", "HEAD"))
    assert not (root.parent / "ran").exists()


def test_a_repository_made_around_what_is_committed_changes_nothing(root: Path) -> None:
    git(root / "tenants/ada", "init", "-q")
    assert files(root)["tenants/ada/tenant.yaml"] == "tenants/ada/tenant.yaml\n"


def test_a_split_index_is_not_written(root: Path) -> None:
    git(root, "config", "core.splitIndex", "true")
    (root / "tenants/ada/tenant.yaml").write_text("changed\n")
    assert files(root)["tenants/ada/tenant.yaml"] == "changed\n"
    assert not list((root / ".git").glob("sharedindex.*"))


def test_a_large_file_is_refused_by_its_size(root: Path) -> None:
    with (root / "tenants/ada/model.bin").open("wb") as file:
        file.truncate(64 << 30)  # who reads it has no memory left
    with pytest.raises(LimitExceeded, match=r"'tenants/ada/model.bin' has 68,719,476,736 bytes: keep data elsewhere"):
        files(root)


def test_many_files_are_refused_by_what_they_have_together(root: Path) -> None:
    for number in range(3):
        (root / f"tenants/ada/{number}.yaml").write_text("x" * (1 << 20))
    with (
        pytest.raises(LimitExceeded, match="the change writes more than 2 MiB of files: split it"),
        planned(root, most=2 << 20),
    ):
        pass


def test_a_file_that_can_not_be_read_is_named(root: Path) -> None:
    os.mkfifo(root / "tenants/ada/pipe.yaml")
    with pytest.raises(OperationRefused, match=r"^'tenants/ada/pipe.yaml' is not a regular file: remove it$"):
        files(root)


def test_work_tree_commit_reports_the_first_message_of_git(root: Path) -> None:
    (root / "tenants/ada/.GIT").write_text("no file that Git takes")
    with pytest.raises(OperationRefused, match=r"^Git can't read the work tree: Ignoring path tenants/ada/\.GIT$"):
        files(root)


def test_ends_of_lines_are_those_that_git_would_commit(root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    (root / "tenants/ada/tenant.yaml").write_bytes(b"tenants/ada/tenant.yaml\r\n")
    (root / "tenants/ada/members.yaml").write_bytes(b"new\r\n")
    (root / "platform/.gitattributes").write_text("*.yaml text eol=crlf\n")
    (root / "platform/platform.yaml").write_bytes(b"platform/platform.yaml\r\n")
    texts = files(root)
    assert texts["tenants/ada/tenant.yaml"] == "tenants/ada/tenant.yaml\n"
    assert texts["tenants/ada/members.yaml"] == "new\n"
    assert texts["platform/platform.yaml"] == "platform/platform.yaml\n"


def test_work_tree_commit_contains_files_outside_a_sparse_checkout(root: Path) -> None:
    git(root, "sparse-checkout", "set", "--no-cone", "/tenants/")
    assert not (root / "platform").exists()
    (root / "tenants/ada/tenant.yaml").unlink()
    assert files(root) == {"README.md": "README.md\n", "platform/platform.yaml": "platform/platform.yaml\n"}


def test_a_mode_that_the_file_system_does_not_keep_is_as_committed(root: Path) -> None:
    git(root, "config", "core.fileMode", "false")
    (root / "tenants/ada/tenant.yaml").chmod(0o755)
    with planned(root) as (repository, source):
        assert repository.trees.root(source.commit) == repository.trees.root(git(root, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    "name", ['quo"te.yaml', "back\\slash.yaml", "new\nline.yaml", "ümlaut.yaml", os.fsdecode(b"\xff.yaml")]
)
def test_any_name_is_taken(root: Path, name: str) -> None:
    (root / "tenants/ada" / name).write_text("strange\n")
    with planned(root) as (repository, source):
        paths = {file.path for file in repository.trees.walk(repository.trees.root(source.commit), 100)}
        assert f"tenants/ada/{name}" in paths


def test_a_repository_of_sha256_is_read_too(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "long")
    folder = tmp_path / "long"
    (folder / "platform").mkdir()
    (folder / "platform/platform.yaml").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, *("-c", "user.name=Ada", "-c", "user.email=ada@northlight.example"), "commit", "-q", "-m", "Begin")
    (folder / "platform/platform.yaml").write_text("two\n")
    assert files(folder) == {"platform/platform.yaml": "two\n"}
