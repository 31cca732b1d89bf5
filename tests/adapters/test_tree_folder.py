"""Writing a tree: whole or not at all, and only what changed. Case 28."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs.volumes import killed_at

from allotment.adapters.tree_folder import MARKER, TreeFolder, WriteCounts
from allotment.problems import OperationRefused

Tree = dict[str, bytes]


def write(out: Path, tree: Tree) -> WriteCounts:
    with TreeFolder(out) as folder:
        return folder.commit({path: folder.stage(path, data) for path, data in tree.items()}, lambda path: True)


def read(out: Path) -> Tree:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.yaml")}


ONE: Tree = {f"c/{name}/x{index}.yaml": f"{name} {index}\n".encode() for name in ("a", "b") for index in range(5)}


def test_only_what_changed_is_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert write(out, ONE) == WriteCounts(10, 0, 0, 0)
    before = {path: (out / path).stat() for path in ONE}
    assert write(out, ONE) == WriteCounts(0, 0, 0, 10)
    two = {**ONE, "c/a/x0.yaml": b"new\n", "c/a/x1.yaml": b"new\n", "c/a/x9.yaml": b"added\n"}
    del two["c/a/x2.yaml"]
    assert write(out, two) == WriteCounts(1, 2, 1, 7)
    assert read(out) == two
    for path in two.keys() & ONE.keys() - {"c/a/x0.yaml", "c/a/x1.yaml"}:
        now = (out / path).stat()
        assert (now.st_ino, now.st_mtime_ns) == (before[path].st_ino, before[path].st_mtime_ns)
    assert os.listdir(tmp_path) == ["out"]


def test_tree_folder_preserves_files_outside_the_selection(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, ONE)
    with TreeFolder(out) as folder:
        folder.commit({"c/a/x0.yaml": folder.stage("c/a/x0.yaml", b"new\n")}, lambda path: path.startswith("c/a/"))
    assert read(out) == {path: data for path, data in ONE.items() if path.startswith("c/b/")} | {
        "c/a/x0.yaml": b"new\n"
    }


def test_tree_folder_refuses_foreign_paths(tmp_path: Path) -> None:
    write(tmp_path / "real", ONE)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("x")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/notes.yaml").write_text("x")
    for name in ("link", "file", "theirs"):
        with pytest.raises(OperationRefused):
            TreeFolder(tmp_path / name)
    for foreign in ("c/notes.txt", "c/a/x.sh"):
        (tmp_path / "real" / foreign).write_text("x")
        with pytest.raises(OperationRefused):
            TreeFolder(tmp_path / "real")
        (tmp_path / "real" / foreign).unlink()
    (tmp_path / "real/c/a/link.yaml").symlink_to("/etc/passwd")
    with pytest.raises(OperationRefused):
        TreeFolder(tmp_path / "real")
    assert (tmp_path / "theirs/notes.yaml").read_text() == "x"
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "real", "theirs"]
    assert read(tmp_path / "real").keys() >= ONE.keys()


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    second = threading.Thread(target=write, args=(tmp_path / "out", ONE))
    with TreeFolder(tmp_path / "out") as folder:
        second.start()
        produced = {path: folder.stage(path, b"first\n") for path in ("c/a/x0.yaml", "c/z.yaml")}
        time.sleep(0.2)
        assert read(folder.staging) == dict.fromkeys(produced, b"first\n"), "the other one waits"
        folder.commit(produced, lambda path: True)
    second.join(10)
    assert read(tmp_path / "out") == ONE
    assert os.listdir(tmp_path) == ["out"]


TWO: Tree = {f"c/a/x{index}.yaml": b"new\n" for index in (0, 1, 7)} | {"c/b/x3.yaml": ONE["c/b/x3.yaml"]}


def test_a_kill_at_any_step_leaves_one_whole_tree(tmp_path: Path) -> None:
    out, left = tmp_path / "out", []
    for step in range(1, 200):
        shutil.rmtree(out, ignore_errors=True)
        write(out, ONE)
        killed = killed_at(step, lambda: write(out, TWO))
        tree = read(out)
        assert tree in (ONE, TWO), f"a mixed tree, at step {step}"
        assert (out / MARKER).exists()
        left.append(tree == TWO)
        write(out, ONE)
        assert read(out) == ONE
        assert os.listdir(tmp_path) == ["out"], f"something stays beside, of step {step}"
        if not killed:
            break
    assert not killed, "it ended"
    assert left == sorted(left)
    assert left.count(False) > 5, "it was killed before the trees were exchanged"
    assert left.count(True) > 2, "it was killed after that, and it ended"


def test_a_file_system_without_exchange_still_gets_its_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoExchange:
        """A C library that lacks the call."""

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: NoExchange())
    write(tmp_path / "out", ONE)
    two = {**ONE, "c/a/x0.yaml": b"new\n", "c/b/x0.yaml": b"new\n"}
    write(tmp_path / "out", two)
    assert read(tmp_path / "out") == two
    assert os.listdir(tmp_path) == ["out"]


def test_tree_folder_refuses_and_preserves_a_special_file(tmp_path: Path) -> None:
    write(tmp_path / "out", ONE)
    os.mkfifo(tmp_path / "out/c/f.yaml")
    for tree in (ONE, {**ONE, "c/f.yaml": b"f\n"}):
        with pytest.raises(OperationRefused):
            write(tmp_path / "out", tree)
    assert (tmp_path / "out/c/f.yaml").is_fifo()


def test_a_folder_that_cannot_be_read_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "out", ONE)
    scandir = os.scandir

    def deny(path: Path) -> Iterator[os.DirEntry[str]]:
        if path.name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", deny)
        with pytest.raises(OperationRefused, match="Permission denied"):
            TreeFolder(tmp_path / "out")
    assert read(tmp_path / "out") == ONE


def test_a_folder_of_somebody_elses_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "out/deep").mkdir(parents=True)
    os.mkfifo(tmp_path / "out/deep/pipe")
    with pytest.raises(OperationRefused, match="it may be somebody else"):
        write(tmp_path / "out", ONE)


def test_tree_folder_restores_the_old_tree_after_a_kill(tmp_path: Path) -> None:
    write(tmp_path / "out", ONE)
    (tmp_path / "out").rename(tmp_path / ".out.allotment-old")
    with TreeFolder(tmp_path / "out") as folder:
        assert folder.existing_files == {*ONE, MARKER}
    assert read(tmp_path / "out") == ONE
    (tmp_path / ".out.allotment-old").mkdir()
    (tmp_path / ".out.allotment-old/x.yaml").write_text("x")
    write(tmp_path / "out", ONE)
    assert os.listdir(tmp_path) == ["out"]


def test_tree_folder_releases_the_lock_after_a_refusal(tmp_path: Path) -> None:
    folder = TreeFolder(tmp_path / "out")
    (tmp_path / "out").write_text("a file by now")
    for _ in range(2):
        with pytest.raises(OperationRefused), folder:
            pass
    write(tmp_path / "beside", ONE)
