"""What is seen of a busy cluster takes no more memory in the evening than in the morning."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest
from tests.support import live
from tests.support.published import git
from tests.support.reported import Bed

pytestmark = pytest.mark.process


DAY = 24 * 60
BOUNDED = 600_000  # bytes: the writer's memory of texts fills up; pods that stayed would take 1 MB


def test_memory_stays_flat_over_a_simulated_day(tmp_path: Path) -> None:
    """Every two minutes another pod takes the place of the one before, with a crash in between; now and then it is written."""
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    bed = Bed(tmp_path / "data", tmp_path / "remote.git", interval=60)
    sizes = []
    tracemalloc.start()
    for minute in range(0, DAY, 2):
        container = live.waiting("CrashLoopBackOff", restarts=1, ended={"exitCode": 1})
        ready = live.started(3, ready=True)
        for pod in (
            live.pod(number=minute, node="n1", container=container),
            live.pod(number=minute, node="n1", container=ready, ready=4),
        ):
            bed.see(live.deployment(), live.replica_set(), pod, live.claim(), seconds=60)
            if minute % 120 == 0:
                bed.reporter.tick()
            elif bed.reporter._branch is not None:
                bed.reporter._observer.observe_changes()
        if minute % 240 == 2:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert len(bed.store) == 4
    assert max(sizes) - sizes[0] < BOUNDED, sizes
    assert bed.commits() >= DAY // 120
