"""Where Git runs: in odd but usual repositories, and what a person reads about a repository that Git refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adapters.git.conftest import SAID, git, new_repository

from allotment.adapters.git.checkout import advance_branch
from allotment.adapters.git.commands import GitCommands, NotInRepository
from allotment.adapters.git.commits import write_commit, write_temporary_commit
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.adapters.git.sandbox_repository import sandbox_repository
from allotment.problems import OperationRefused

FILE = "tenants/ada/tenant.yaml"


def committed(folder: Path, *options: str) -> Repository:
    """Return a new repository with one commit."""
    subprocess.run(["git", "init", "-q", "--initial-branch=main", *options, folder], check=True)
    (folder / FILE).parent.mkdir(parents=True)
    (folder / FILE).write_text("a: 1\n")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "Begin")
    return Repository(folder)


def test_a_folder_without_a_repository_is_not_in_one(tmp_path: Path) -> None:
    with pytest.raises(NotInRepository, match=f"{tmp_path} is not in a Git repository"):
        _ = GitCommands(tmp_path).folder


def test_a_missing_git_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = new_repository(tmp_path / "here")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperationRefused, match=r"Git is not installed, or not in PATH: install Git 2\.39 or newer"):
        repository.has_commits()


def test_a_signal_that_ends_git_is_named(tmp_path: Path) -> None:
    git_commands = new_repository(tmp_path / "here").git
    ended = git_commands.run("-c", "alias.end=!kill -9 $PPID", "end")
    assert (ended.exit_code, ended.stderr) == (-9, "a signal ended Git: Killed")


def break_head(folder: Path) -> None:
    (folder / ".git/HEAD").write_text("")


def empty_git_folder(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    (folder / ".git").mkdir()


def lead_nowhere(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    (folder / ".git").write_text("gitdir: /nonexistent\n")


def need_an_extension(folder: Path) -> None:
    git(folder, "config", "core.repositoryFormatVersion", "1")
    git(folder, "config", "extensions.fromTheFuture", "true")


def need_a_newer_format(folder: Path) -> None:
    git(folder, "config", "core.repositoryFormatVersion", "99")


@pytest.mark.parametrize("damage", [break_head, empty_git_folder, lead_nowhere, need_an_extension, need_a_newer_format])
def test_a_repository_that_git_refuses_is_named_with_the_reason(damage: Callable[[Path], None], tmp_path: Path) -> None:
    committed(tmp_path / "here")
    damage(tmp_path / "here")
    with pytest.raises(OperationRefused, match=f"Git can't open the repository {tmp_path}/here: .+") as refused:
        Repository(tmp_path / "here").has_commits()
    assert not isinstance(refused.value, NotInRepository)


def test_a_work_tree_elsewhere_names_the_setting(tmp_path: Path) -> None:
    committed(tmp_path / "here")
    git(tmp_path / "here", "config", "core.worktree", "/nonexistent")
    with pytest.raises(
        OperationRefused, match=r"the setting core\.worktree of .*/here names the work tree /nonexistent"
    ):
        Repository(tmp_path / "here").has_commits()


def test_a_checkout_that_is_called_bare_takes_no_commit(tmp_path: Path) -> None:
    repository = committed(tmp_path / "here")
    git(tmp_path / "here", "config", "core.bare", "true")
    head = repository.resolve_named_commit("HEAD")
    with pytest.raises(OperationRefused, match=r"no work tree to commit from, because core\.bare is true"):
        advance_branch(Repository(tmp_path / "here"), head, head, [FILE])


def test_a_bare_repository_is_opened_as_the_person_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(tmp_path / "here")
    git(tmp_path, "clone", "-q", "--bare", "here", "there.git")
    assert Repository(tmp_path / "there.git").has_commits()
    configuration = tmp_path / "gitconfig"
    configuration.write_text("[safe]\n\tbareRepository = explicit\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    assert Repository(tmp_path / "there.git", GitCommands(tmp_path / "there.git", alone=True)).has_commits()
    with pytest.raises(OperationRefused, match=r"because safe\.bareRepository is explicit: name a work tree"):
        Repository(tmp_path / "there.git").has_commits()


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX"])
@pytest.mark.parametrize("value", ["/nonexistent", "other"])
def test_variables_of_another_repository_have_no_effect(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git sets them for its hooks."""
    head = committed(tmp_path / "here").resolve_named_commit("HEAD")
    committed(tmp_path / "other")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, value if value.startswith("/") else str(tmp_path / value / ".git"))
    repository = Repository(tmp_path / "here")
    assert repository.resolve_named_commit("HEAD") == head
    assert repository.git.work_tree == tmp_path / "here"


@pytest.mark.parametrize("variable", ["GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_TRACE"])
def test_variables_of_paths_have_no_effect(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = committed(tmp_path / "here")
    monkeypatch.setenv(variable, "1")
    assert Repository(tmp_path / "here").last_message(repository.resolve_named_commit("HEAD"), "tenants") == "Begin\n"


@pytest.mark.parametrize(
    "name",
    ["a b", "a:b", 'a"b', "-x", "räum", "a%20#b?c", "$HOME `id`", "a'b", os.fsdecode(b"a\xffb"), "a\\b", "*?[x]"],
)
def test_a_folder_has_any_name(name: str, tmp_path: Path) -> None:
    """Git reads, commits, fetches, pushes and plans in a sandbox there."""
    repository = committed(tmp_path / name)
    git(tmp_path, "init", "-q", "--bare", "there.git")
    git(tmp_path / name, "remote", "add", "origin", str(tmp_path / "there.git"))
    head = repository.resolve_named_commit("HEAD")
    with sandbox_repository(repository, head) as sandbox:
        assert sandbox.read_at(head, FILE) == b"a: 1\n"
    commit = write_commit(repository, [head], {FILE: b"a: 2\n"}, SAID)
    origin = Remote(repository, "origin", keep=True)
    assert origin.push({"refs/heads/main": commit})
    assert origin.fetch("refs/heads/main") == {"refs/heads/main": commit}
    assert git(tmp_path / "there.git", "cat-file", "blob", f"main:{FILE}") == "a: 2"


def test_a_line_break_in_the_name_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "a\nb").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path / "a\nb"], check=True)
    with pytest.raises(OperationRefused, match=r"a\\nb' has a line break in its name"):
        Repository(tmp_path / "a\nb").has_commits()


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_a_repository_has_either_format_of_ids(object_format: str, tmp_path: Path) -> None:
    repository = committed(tmp_path / "here", f"--object-format={object_format}")
    git(tmp_path, "init", "-q", "--bare", f"--object-format={object_format}", "there.git")
    git(tmp_path / "here", "remote", "add", "origin", str(tmp_path / "there.git"))
    head = repository.resolve_named_commit("HEAD")
    commit = write_commit(repository, [head], {FILE: b"a: 2\n"}, SAID)
    temporary = write_temporary_commit(repository, head, {FILE: b"a: 3\n"})
    assert len(commit) == {"sha1": 40, "sha256": 64}[object_format]
    assert (repository.read_at(commit, FILE), repository.read_at(temporary, FILE)) == (b"a: 2\n", b"a: 3\n")
    assert repository.create_ref("refs/allotment/x", commit)
    assert not repository.create_ref("refs/allotment/x", head)
    advance_branch(repository, head, commit, [FILE])
    assert Remote(repository, "origin").push({"refs/heads/main": commit})
    assert git(tmp_path / "there.git", "rev-parse", "main") == commit


@pytest.mark.parametrize(
    ("other", "is_remote"), [("main", False), ("HEAD", False), ("origin/main", False), ("main", True)]
)
def test_a_tag_with_the_name_of_a_branch_is_not_the_branch(other: str, is_remote: bool, tmp_path: Path) -> None:
    repository = committed(tmp_path / "here")
    old = repository.resolve_named_commit("HEAD")
    git(tmp_path / "here", "tag", other)
    git(tmp_path, "init", "-q", "--bare", "there.git")
    git(tmp_path / "here", "remote", "add", "origin", str(tmp_path / "there.git"))
    commit = write_commit(repository, [old], {FILE: b"a: 2\n"}, SAID)
    advance_branch(repository, old, commit, [FILE])
    git(tmp_path / "here", "push", "-q", "origin", "refs/heads/main", *(["refs/tags/main"] if is_remote else []))
    assert repository.find_commit("refs/heads/main") == commit
    assert repository.resolve_named_commit("HEAD") == commit
    assert Remote(repository, "origin").look("refs/heads/main") == {"refs/heads/main": commit}


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        ((), "`git remote add origin URL`"),
        (("upstream",), "`git remote rename upstream origin`"),
        (("a'b",), """`git remote rename 'a'"'"'b' origin`"""),
    ],
)
def test_a_missing_origin_names_the_command(names: tuple[str, ...], remedy: str, tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "here")
    for name in names:
        git(tmp_path / "here", "config", f"remote.{name}.url", "/nonexistent")
    assert repository.git.origin_remedy == remedy


def test_settings_of_remotes_are_read_as_git_reads_them(tmp_path: Path) -> None:
    repository = new_repository(tmp_path / "here")
    settings = [("url", "acme:gpus"), ("url", "second"), ("pushurl", "third")]
    for key, value in settings:
        git(tmp_path / "here", "config", "--add", f"remote.a.b.{key}", value)
    git(tmp_path / "here", "config", "remote.half.prune", "true")
    git(tmp_path / "here", "config", "url.ssh://git@forge.example/.insteadOf", "acme:")
    commands = repository.git
    assert (commands.remotes, commands.url_of("a.b"), commands.url_of("half")) == (["a.b"], "acme:gpus", None)
    assert (commands.has_several_urls("a.b"), commands.has_several_urls("half")) == (True, False)
