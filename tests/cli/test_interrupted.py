"""Ctrl-C ends a command at once, without a traceback, and leaves nothing behind: no file of its own, no half of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import DAY, files_below
from tests.support.interruptible_program import BEGIN
from tests.support.published import Place

pytestmark = pytest.mark.process


DELAYS = (0.1, 0.3, 0.5, 0.8)  # seconds: while it imports, reads, renders, writes
ENDS = (0, 130, -signal.SIGINT)  # it was done, or interrupted: a shell says 130 of both


def interrupted(words: list[str], cwd: Path, temporary: Path, delay: float) -> subprocess.CompletedProcess[str]:
    """Return how a command ended that a person interrupted after a while: as the shell does it, with all its children."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", BEGIN, *words],
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(delay)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.parametrize("delay", DELAYS)
def test_a_folder_is_written_whole_or_not_at_all(delay: float, sample: Path, tmp_path: Path) -> None:
    temporary, out = tmp_path / "temporary", tmp_path / "out"
    temporary.mkdir()
    done = interrupted(["render", "--out", str(out), "--as-of", DAY], sample, temporary, delay)
    assert done.returncode in ENDS, done
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".") or "new" in path.name] == []
    assert done.returncode or delay > DELAYS[0], "nothing is done so soon"
    if done.returncode and out.exists():
        assert files_below(out) == {} or len(files_below(out)) > 80


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize(
    "words", [("plan", "--base", "origin/main"), ("publish",), ("status",)], ids=lambda words: words[0]
)
def test_a_repository_is_as_it_was(words: tuple[str, ...], delay: float, published: Place, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = files_below(published.root, but=(".git/objects", ".git/refs", ".git/FETCH_HEAD", ".git/packed-refs"))
    done = interrupted([*words], published.root, temporary, delay)
    assert done.returncode in ENDS, done
    assert "Traceback" not in done.stderr
    assert list(temporary.iterdir()) == []
    after = files_below(published.root, but=(".git/objects", ".git/refs", ".git/FETCH_HEAD", ".git/packed-refs"))
    assert after == before
    assert not list(published.root.rglob("*.lock")), "of Git's"
    assert done.returncode or delay > DELAYS[0], "nothing is done so soon"
