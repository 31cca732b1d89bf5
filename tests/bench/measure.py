"""Runs a command as a whole process: wall and processor seconds, and the peak of the memory of its process tree."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

Say = Callable[[str, str], None]
TICKS = os.sysconf("SC_CLK_TCK")
BUSY_CORES = 0.1  # other processes that use more than this share of a core disturb a measurement


class Run(NamedTuple):
    """Wall seconds, processor seconds of the process and its children, and the peak of its memory in MB.

    The memory is the proportional set size of the process tree, sampled ten times a second; 0 if it was not requested.
    """

    seconds: float
    cpu_seconds: float
    megabytes: float = 0.0


class Pair(NamedTuple):
    """The medians of two commands that were measured in turn: a machine that drifts drifts for both."""

    ours: Run
    theirs: Run

    @property
    def ratio(self) -> str:
        """Our share of the peer's wall time and of its processor time, such as `1.07 (CPU 0.71)`."""
        wall, cpu = self.ours.seconds / self.theirs.seconds, self.ours.cpu_seconds / self.theirs.cpu_seconds
        return f"{wall:.2f} (CPU {cpu:.2f})"

    @property
    def speed(self) -> str:
        """How many times as fast we are as the peer, by wall time and by processor time."""
        wall, cpu = self.theirs.seconds / self.ours.seconds, self.theirs.cpu_seconds / self.ours.cpu_seconds
        return f"{wall:.1f} times as fast (CPU {cpu:.1f})"


def run(command: Sequence[str], *, memory: bool = False, expected: Collection[int] = (0,)) -> Run:
    """Run a command to its end, its output thrown away. Raises CalledProcessError when its exit status is not expected."""
    with tempfile.TemporaryFile() as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        with _sampled_memory(process.pid if memory else 0) as peak:
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in expected:
            errors.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, stderr=errors.read())
    return Run(seconds, usage.ru_utime + usage.ru_stime, max(peak, default=0.0))


def timed(work: Callable[[], object]) -> Run:
    """Run some work in this process; its processor seconds include the children that ended meanwhile."""
    begun, cpu = time.perf_counter(), _own_cpu_seconds()
    work()
    return Run(time.perf_counter() - begun, _own_cpu_seconds() - cpu)


def pairs(ours: Callable[[], Run], theirs: Callable[[], Run], times: int) -> Pair:
    """Return the medians of both, measured in turn."""
    both = [(ours(), theirs()) for _ in range(times)]
    return Pair(median([own for own, _ in both]), median([other for _, other in both]))


def median(runs: Sequence[Run]) -> Run:
    """Return the medians of several runs."""
    return Run(*(statistics.median(column) for column in zip(*runs, strict=True)))


def machine() -> str:
    """Return what it ran on."""
    return f"{len(os.sched_getaffinity(0))} cores"


@contextmanager
def watched_machine(say: Say) -> Iterator[None]:
    """Say it if other processes were busy meanwhile: the figures are then too high, and ratios of wall time unsure."""
    begun, busy, own = time.monotonic(), _machine_cpu_seconds(), _own_cpu_seconds()
    yield
    seconds = time.monotonic() - begun
    others = (_machine_cpu_seconds() - busy - (_own_cpu_seconds() - own)) / seconds if seconds else 0
    if others > BUSY_CORES:
        say("! the machine was busy", f"other processes used {others:.1f} cores meanwhile")


def reset_peak() -> None:
    """Let the peak of this process's memory begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_megabytes() -> float:
    """Return the peak of this process's memory in MB since `reset_peak`."""
    return _status_field("VmHWM")


def held_megabytes() -> float:
    """Return the memory that this process holds now, in MB."""
    return _status_field("VmRSS")


def _status_field(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def _own_cpu_seconds() -> float:
    """Return the processor seconds of this process and of its ended children."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _machine_cpu_seconds() -> float:
    """Return the seconds that all cores together were not idle."""
    user, nice, system, _, _, interrupts, soft_interrupts, steal = (
        int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    )
    return (user + nice + system + interrupts + soft_interrupts + steal) / TICKS


@contextmanager
def _sampled_memory(root: int) -> Iterator[list[float]]:
    """Sample the memory of a process tree in MB; no sample if `root` is 0."""
    samples: list[float] = []
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(0.1):
            samples.append(_tree_megabytes(root))

    thread = threading.Thread(target=sample)
    if root:
        thread.start()
    try:
        yield samples
    finally:
        stop.set()
        if root:
            thread.join()


def _process_tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    tree, todo = [], [root]
    while todo:
        tree.append(todo.pop())
        todo += children.get(tree[-1], [])
    return tree


def _tree_megabytes(root: int) -> float:
    total = 0
    for process in _process_tree(root):
        try:
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024
