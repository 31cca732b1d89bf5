"""Writing a tree: whole or not at all, and only what changed. Case 28."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from allotment.adapters.tree_folder import MARKER, TreeFolder, Written
from allotment.problems import Refused

Tree = dict[str, bytes]


def write(out: Path, tree: Tree) -> Written:
    folder = TreeFolder(out)
    try:
        return folder.commit({path: folder.stage(path, data) for path, data in tree.items()}, lambda path: True)
    finally:
        folder.close()


def read(out: Path) -> Tree:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*.yaml")}


ONE: Tree = {f"c/{name}/x{index}.yaml": f"{name} {index}\n".encode() for name in ("a", "b") for index in range(5)}


def test_only_what_changed_is_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert write(out, ONE) == Written(10, 0, 0, 0)
    before = {path: (out / path).stat() for path in ONE}
    assert write(out, ONE) == Written(0, 0, 0, 10)
    two = {**ONE, "c/a/x0.yaml": b"new\n", "c/a/x1.yaml": b"new\n", "c/a/x9.yaml": b"added\n"}
    del two["c/a/x2.yaml"]
    assert write(out, two) == Written(1, 2, 1, 7)
    assert read(out) == two
    for path in two.keys() & ONE.keys() - {"c/a/x0.yaml", "c/a/x1.yaml"}:
        now = (out / path).stat()
        assert (now.st_ino, now.st_mtime_ns) == (before[path].st_ino, before[path].st_mtime_ns)
    assert os.listdir(tmp_path) == ["out"]


def test_what_is_not_selected_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, ONE)
    folder = TreeFolder(out)
    folder.commit({"c/a/x0.yaml": folder.stage("c/a/x0.yaml", b"new\n")}, lambda path: path.startswith("c/a/"))
    assert read(out) == {path: data for path, data in ONE.items() if path.startswith("c/b/")} | {
        "c/a/x0.yaml": b"new\n"
    }


def test_what_is_somebody_elses_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "real", ONE)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("x")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/notes.yaml").write_text("x")
    for name in ("link", "file", "theirs"):
        with pytest.raises(Refused):
            TreeFolder(tmp_path / name)
    for foreign in ("c/notes.txt", "c/a/x.sh"):
        (tmp_path / "real" / foreign).write_text("x")
        with pytest.raises(Refused):
            TreeFolder(tmp_path / "real")
        (tmp_path / "real" / foreign).unlink()
    (tmp_path / "real/c/a/link.yaml").symlink_to("/etc/passwd")
    with pytest.raises(Refused):
        TreeFolder(tmp_path / "real")
    assert (tmp_path / "theirs/notes.yaml").read_text() == "x"
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "real", "theirs"]
    assert read(tmp_path / "real").keys() >= ONE.keys()


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    first = TreeFolder(tmp_path / "out")
    with pytest.raises(Refused):
        TreeFolder(tmp_path / "out")
    write(tmp_path / "beside", ONE)
    first.close()
    write(tmp_path / "out", ONE)
    assert sorted(os.listdir(tmp_path)) == ["beside", "out"]


KILLED = """
import sys
sys.path[:0] = {path!r}
from tests.adapters.test_tree_folder import write
from pathlib import Path
generation = int(sys.argv[2])
print("go", flush=True)
while True:
    generation += 1
    write(Path(sys.argv[1]), {{f"c/{{n % 7}}/x{{n}}.yaml": f"{{generation}}\\n".encode() for n in range(60 + generation % 3)}})
"""


def test_a_kill_at_any_moment_leaves_one_whole_tree(tmp_path: Path) -> None:
    out, chance = tmp_path / "out", random.Random(7)
    write(out, {f"c/{n % 7}/x{n}.yaml": b"0\n" for n in range(60)})
    generations = set()
    for round_ in range(15):
        run = [sys.executable, "-c", KILLED.format(path=sys.path), str(out), str(round_ * 1000)]
        with subprocess.Popen(run, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.08))
            process.send_signal(signal.SIGKILL)
        texts = set(read(out).values())
        assert len(texts) == 1, f"a mixed tree: {texts}"
        generation = int(texts.pop())
        assert len(read(out)) == 60 + (generation % 3 if generation else 0)
        assert (out / MARKER).exists()
        generations.add(generation)
    assert len(generations) > 3
    write(out, ONE)
    assert read(out) == ONE
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_system_without_exchange_still_gets_its_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoExchange:
        """A C library that lacks the call."""

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: NoExchange())
    write(tmp_path / "out", ONE)
    two = {**ONE, "c/a/x0.yaml": b"new\n", "c/b/x0.yaml": b"new\n"}
    write(tmp_path / "out", two)
    assert read(tmp_path / "out") == two
    assert os.listdir(tmp_path) == ["out"]
