"""Runs a command as a whole process: seconds, and the peak of what it and its children hold in memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """Wall seconds; peak memory of the process tree in MB (proportional set size, sampled), 0 where /proc has none."""

    seconds: float
    megabytes: float


def _family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    family, todo = [], [root]
    while todo:
        family.append(todo.pop())
        todo += parents.get(family[-1], [])
    return family


def _held(root: int) -> float:
    total = 0
    for process in _family(root):
        try:
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024


def run(
    command: Sequence[str], *, cwd: Path | None = None, memory: bool = False, environment: dict[str, str] | None = None
) -> Run:
    """Run a command to its end, its output thrown away. Raises CalledProcessError when it fails."""
    begun = time.perf_counter()
    peak = 0.0
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as process:
        stop = threading.Event()

        def sample() -> None:
            nonlocal peak
            while not stop.wait(0.1):
                peak = max(peak, _held(process.pid))

        watcher = threading.Thread(target=sample)
        if memory:
            watcher.start()
        _, stderr = process.communicate()
        seconds = time.perf_counter() - begun
        stop.set()
        if memory:
            watcher.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=stderr)
    return Run(seconds, peak)


def median(measure: Callable[[], float], times: int) -> float:
    """Return the median of several measurements, in seconds."""
    return statistics.median(measure() for _ in range(times))


def pairs(ours: Callable[[], float], theirs: Callable[[], float], times: int) -> tuple[float, float]:
    """Return both medians, measured in turn: a machine that drifts drifts for both."""
    both = [(ours(), theirs()) for _ in range(times)]
    return statistics.median(own_seconds for own_seconds, _ in both), statistics.median(other for _, other in both)


def machine() -> str:
    """Return what it ran on."""
    return f"{len(os.sched_getaffinity(0))} cores"
