"""The program's own clone: who may use it, what a replacement deletes, and what is never touched."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.adapters.git.conftest import git, new_repository
from tests.conftest import Allot
from tests.support import damage

from allotment.adapters.git import clone as clones
from allotment.adapters.git.clone import CLONE_MARKER, Clone
from allotment.adapters.git.remote import Remote
from allotment.adapters.git.repository import Repository
from allotment.problems import OperationRefused

MAIN = "refs/heads/main"


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Return a repository with one commit."""
    folder = new_repository(tmp_path / "remote").folder
    (folder / "file").write_text("content")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "-m", "First")
    git(folder, "branch", "-M", "main")
    return folder


def cloned(folder: Path, remote: Path) -> Clone:
    """Return a clone that has the remote's branch."""
    clone = Clone.open_or_create(folder)
    Remote(clone, str(remote), keep=True).fetch(MAIN)
    return clone


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and the time of each file."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@contextmanager
def used_elsewhere(folder: Path) -> Iterator[None]:
    """Let another process use a clone."""
    program = f"import sys; from pathlib import Path; from allotment.adapters.git.clone import Clone; c = Clone.open_or_create(Path({str(folder)!r})); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        yield
        process.kill()


@pytest.mark.process
def test_a_clone_that_another_process_uses_is_refused(tmp_path: Path, allot: Allot) -> None:
    with used_elsewhere(tmp_path / "data"):
        result = allot("run", "--publish", "--source", "./x", "--data", tmp_path / "data", "--listen", "127.0.0.1:0")
        words = f"allot: {tmp_path}/data is used by another process of Allotment, and a clone has one user at a time: end that process, or name another folder with --data\n"
        assert (result.code, result.err) == (2, words)
    assert Clone.open_or_create(tmp_path / "data") is Clone.open_or_create(tmp_path / "data"), (
        "one process may open it more than once"
    )


def test_a_repository_that_allotment_did_not_make_is_never_touched(tmp_path: Path, remote: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(remote), "bare.git")
    (tmp_path / "broken.git").mkdir()
    for name in ("objects", "refs"):
        (tmp_path / "bare.git" / name).rename(tmp_path / "broken.git" / name)
    git(tmp_path, "clone", "-q", "--bare", str(remote), "again.git")
    for folder in (remote, tmp_path / "again.git", tmp_path / "broken.git"):
        before = files(folder)
        with pytest.raises(OperationRefused) as refused:
            Clone.open_or_create(folder)
        assert str(refused.value) == (
            f"{folder} holds a Git repository that Allotment didn't make: name another folder with --data."
            " If it is a clone of an earlier version of Allotment, delete the folder"
        )
        assert files(folder) == before


@pytest.mark.parametrize("folder", ["data", "data/deeper", "."])
def test_no_clone_lies_in_a_work_tree(folder: str, remote: Path) -> None:
    """A stranger may have committed a bare repository there, with a marker and with settings that name programs."""
    data = remote / folder
    data.mkdir(exist_ok=True, parents=True)
    for name in (CLONE_MARKER, "config"):
        (data / name).touch()
    with pytest.raises(OperationRefused, match="a stranger may have committed it: name a folder elsewhere with --data"):
        Clone.open_or_create(data)


def test_a_damaged_clone_below_a_home_in_git_uses_no_repository_around_it(
    remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(remote))
    clone = cloned(remote / "data", remote)
    damage.remove_objects(clone.folder)
    (clone.folder / "HEAD").unlink()
    before = files(remote / ".git")
    clone.clear_cache()
    assert clone.repair(["any error"]) is not None
    assert Remote(clone, str(remote), keep=True).fetch(MAIN) == {MAIN: git(remote, "rev-parse", "HEAD")}
    assert files(remote / ".git") == before


def test_a_clone_of_an_earlier_version_is_taken_over(tmp_path: Path, remote: Path) -> None:
    commit = Remote(Repository.open_or_create(tmp_path / "data"), str(remote), keep=True).fetch(MAIN)[MAIN]
    assert not (tmp_path / "data" / CLONE_MARKER).exists()
    clone = Clone.open_or_create(tmp_path / "data")
    assert clone.has_object(commit)
    damage.remove_packs(clone.folder)
    assert clone.repair(["any error"]) is not None
    assert cloned(clone.folder, remote).has_object(commit)


def test_a_replacement_deletes_what_git_wrote_and_nothing_else(tmp_path: Path, remote: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    clone = cloned(tmp_path / "data", remote)
    clone.git.configure([("user.name", "reporter")])
    for name in ("report", "comment", "cache"):
        (clone.folder / name).mkdir()
        (clone.folder / name / "HEAD").touch()
    (clone.folder / "logs").symlink_to(other)
    damage.remove_packs(clone.folder)
    clone_damage = clone.repair(["any error"])
    assert clone_damage is not None
    assert clone_damage.is_replaced
    assert sorted(path.name for path in clone.folder.iterdir() if path.name not in clones.GIT_ENTRIES) == [
        CLONE_MARKER,
        "cache",
        "comment",
        "report",
    ]
    assert (other / "file").exists()
    assert git(clone.folder, "config", "user.name") == "reporter"
    assert cloned(clone.folder, remote).repair(["another error"]) is None


def test_a_remote_that_is_damaged_replaces_no_clone(tmp_path: Path, remote: Path) -> None:
    clone = cloned(tmp_path / "data", remote)
    git(remote, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", "Second")
    for path in (remote / ".git/objects").glob("??/*"):
        path.unlink()
    with pytest.raises(OperationRefused) as refused:
        Remote(clone, str(remote), keep=True).fetch(MAIN)
    before = files(clone.folder)
    assert clone.repair([str(refused.value)]) is None
    assert files(clone.folder) == before


@pytest.mark.process
def test_locks_stay_while_a_git_runs_in_the_clone(tmp_path: Path, remote: Path) -> None:
    clone = cloned(tmp_path / "data", remote)
    damage.leave_locks(clone.folder)
    command = ["git", "hash-object", "--stdin-paths"]
    with subprocess.Popen(command, cwd=clone.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        # Popen returns before the kernel gives the process its name, so wait for the first answer.
        running.stdin.write(b"config\n")
        running.stdin.flush()
        assert running.stdout.readline()
        clone.remove_locks()
        assert damage.locks(clone.folder) == list(damage.LOCKS)
    clone.remove_locks()
    assert damage.locks(clone.folder) == []


def test_a_start_replaces_a_clone_that_git_cannot_open(tmp_path: Path, remote: Path) -> None:
    clone = cloned(tmp_path / "data", remote)
    (clone.folder / "config").write_text("[core\n")
    damage.leave_locks(clone.folder)
    assert cloned(clone.folder, remote).has_object(git(remote, "rev-parse", "HEAD"))
    assert damage.locks(clone.folder) == []


def test_clone_repairs_damage_and_reads_again(tmp_path: Path, remote: Path) -> None:
    clone = cloned(tmp_path / "data", remote)
    commit = git(remote, "rev-parse", "HEAD")
    damage.remove_packs(clone.folder)

    def read() -> bytes | None:
        Remote(clone, str(remote), keep=True).fetch(MAIN)
        return clone.read_at(commit, "file")

    assert clone.run_with_repair(read) == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, 1234, 1234)
    with pytest.raises(OperationRefused, match="belongs to another user of this machine"):
        Clone.open_or_create(folder)
    assert list(folder.iterdir()) == []


def test_a_marker_that_is_a_link_is_not_written(tmp_path: Path) -> None:
    folder, other = tmp_path / "data", tmp_path / "other"
    folder.mkdir()
    other.touch()
    (folder / CLONE_MARKER).symlink_to(other)
    with pytest.raises(OperationRefused, match="is a symbolic link"):
        Clone.open_or_create(folder)
    assert other.read_bytes() == b""
