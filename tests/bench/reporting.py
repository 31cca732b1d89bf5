"""Reporting: a list of pods and everybody's status against the official typed client, and a busy cluster for a while."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench.measure import Say

PODS = 10_000
BUSY_PODS, EVENTS, SECONDS = 16_667, 500, 90  # three objects a pod


@contextmanager
def serving(pods: int, events: int) -> Iterator[str]:
    """Serve so many pods for a while; yield the URL."""
    command = [sys.executable, "-m", "tests.bench.apiserver", str(pods), str(events)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def lister(*words: str) -> Any:
    """Return what a lister says, as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.lister", *words], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def reporting(say: Say) -> None:
    """Measure both, and say the figures."""
    with serving(PODS, 0) as url:
        both = [(lister("ours", url), lister("typed", url)) for _ in range(3)]
        whole = lister("whole", url)
    if whole[2] != PODS or {measurement[2] for pair in both for measurement in pair} != {PODS}:
        raise RuntimeError("not all pods were found to run")
    ours, theirs = ([statistics.median(pair[side][what] for pair in both) for what in (0, 1)] for side in (0, 1))
    say(f"{PODS:,} pods listed, and the state of each computed", f"{ours[0]:6.2f} s  {ours[1]:4.0f} MB")
    say(
        "the official typed client lists them",
        f"{theirs[0]:6.2f} s  {theirs[1]:4.0f} MB: ours is {theirs[0] / ours[0]:.0f} times as fast, in 1/{theirs[1] / ours[1]:.0f} of the memory",
    )
    say("then the status of all their tenants, every condition", f"{whole[0]:6.2f} s  {whole[1]:4.0f} MB")
    with serving(BUSY_PODS, EVENTS) as url, tempfile.TemporaryDirectory(prefix="allot-bench-") as folder:
        figures = lister("report", url, folder, str(SECONDS))
    memory = " → ".join(f"{megabytes:.0f}" for megabytes in figures["megabytes"])
    say(
        f"{figures['objects']:,} objects, {figures['events']:.0f} events a second, reported for {SECONDS} s",
        f"{figures['cores']:6.2f} cores  {memory} MB",
    )
