"""Processes of the test bed: found by their mark, ended whatever they do, and quick to say why they didn't start."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import PROJECT
from tests.controlplane import processes
from tests.support.waiting import eventually

STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done"


@pytest.mark.process
def test_a_folder_has_its_own_processes_and_their_children(tmp_path: Path) -> None:
    first_folder, other = tmp_path / "one", tmp_path / "other"
    for folder in (first_folder, other):
        folder.mkdir()
        processes.start(folder, "sleeper", ["sh", "-c", "sleep 60 & sleep 60"])
    eventually(lambda: len(processes.running(first_folder)) == 3, "three processes")
    assert processes.stop(first_folder) == 3
    assert processes.running(first_folder) == []
    assert len(processes.running(other)) == 3
    processes.stop(other)


@pytest.mark.process
def test_stop_kills_a_process_that_ignores_the_signal(tmp_path: Path) -> None:
    started = processes.start(tmp_path, "stubborn", ["sh", "-c", STUBBORN])
    eventually(lambda: len(processes.running(tmp_path)) >= 3, "it to run")
    processes.stop(tmp_path, seconds=0.5)
    assert processes.running(tmp_path) == []
    assert not psutil.pid_exists(started.process.pid)


@pytest.mark.process
def test_one_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    started = processes.start(tmp_path, "short", ["sh", "-c", "echo no such flag; exit 4"])
    begun = time.monotonic()
    with pytest.raises(processes.NotStarted, match="short ended with 4\nno such flag"):
        started.wait_until(lambda: False)
    assert time.monotonic() - begun < 30, "it waits no longer for what has ended"


def test_free_ports_differ() -> None:
    ports = processes.free_ports()
    assert len({next(ports) for _ in range(50)}) == 50


@pytest.mark.process
def test_alone_makes_a_second_process_wait_for_the_first(tmp_path: Path) -> None:
    """Two processes add to one file, each in two steps."""
    log_file = tmp_path / "said"
    program = (
        "import sys, time, pathlib; from tests.controlplane.processes import alone\n"
        "lock, said = map(pathlib.Path, sys.argv[1:])\n"
        "with alone(lock):\n"
        "    for word in ('begins', 'ends'):\n"
        "        with said.open('a') as file: file.write(f'{word}\\n')\n"
        "        time.sleep(0.2)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "state" / "lock"), str(log_file)]
    both = [subprocess.Popen(command, cwd=PROJECT) for _ in range(2)]
    assert [process.wait(30) for process in both] == [0, 0]
    assert log_file.read_text().split() == ["begins", "ends"] * 2
