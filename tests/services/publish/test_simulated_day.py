"""A publisher that runs all day holds as many descriptors and as much memory after many publishes as after a few."""

from __future__ import annotations

import gc
import os
import tracemalloc
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.support.comment_loop_bed import RecordedLog
from tests.support.published import INSTANCE, Place, git

from allotment.cli.reporter_options import ClusterAccess
from allotment.cli.run_parts import RunOptions, create_parts
from allotment.cli.service import ServiceContext
from allotment.isolation.gate import IsolationGate
from allotment.services.publish.publish_loop import PublishLoop

pytestmark = pytest.mark.process


WARM_UP_ROUNDS, ROUNDS = 9, 42  # multiples of CONTENTS, so that each round changes the file
# The contents recur, so that caches by content, which have limits of their own, are full after the first rounds.
CONTENTS = 3
MAX_GROWTH = 1_000  # bytes per publish
CHECK = IsolationGate.check  # the gate itself: that of `one_gate` remembers what it checked


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def loop(small: Place, tmp_path: Path, log: RecordedLog, monkeypatch: pytest.MonkeyPatch) -> PublishLoop:
    """Return the publisher as `allot run` creates it."""
    monkeypatch.setattr(IsolationGate, "check", CHECK)
    monkeypatch.setattr("allotment.preparation.job_names._MAX_RECENT_HASHES", 2)  # by object, so it fills slowly
    options = RunOptions(
        access=ClusterAccess(None, None, None, None, None, None),
        source=str(small.root),
        branch="main",
        to=str(small.remote),
        status=None,
        data=tmp_path / "data",
        interval=30,
        report_interval=60,
        tenant_seconds=60,
        forge_token_file=None,
        forge_api=None,
        plan_seconds=120,
        plan_megabytes=1024,
    )
    context = ServiceContext(CollectorRegistry(), log, lambda: True, lambda: None)
    (loop,) = create_parts(options, context, publish=True, cluster=None, comment=False, gate=None)
    assert isinstance(loop, PublishLoop)
    return loop


@contextmanager
def traced_memory() -> Iterator[None]:
    tracemalloc.start(1)
    try:
        yield
    finally:
        tracemalloc.stop()


def take_snapshot() -> tracemalloc.Snapshot:
    """Return the objects that are alive, without the newest addresses, which Python itself remembers."""
    urllib.parse.clear_cache()
    gc.collect()
    return tracemalloc.take_snapshot()


@pytest.mark.process
def test_descriptors_and_memory_stay_level_from_publish_to_publish(
    loop: PublishLoop, small: Place, log: RecordedLog
) -> None:
    instance = small.root / "tenants/solo-ada/instances/day.yaml"

    def publish(number: int) -> None:
        instance.write_text(INSTANCE.format(name="day", labels=f"  labels:\n    round: r{'1' * (number % CONTENTS)}\n"))
        git(small.root, "add", str(instance))
        git(small.root, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "Change")
        loop.tick()
        assert [event for event, _ in log.events] == ["published"]
        log.events.clear()

    with traced_memory():
        for number in range(WARM_UP_ROUNDS):
            publish(number)
        descriptors, before = len(os.listdir("/proc/self/fd")), take_snapshot()
        for number in range(ROUNDS):
            publish(number)
        differences = take_snapshot().compare_to(before, "lineno")
    growth = sum(line.size_diff for line in differences) // ROUNDS
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert growth < MAX_GROWTH, "\n".join([f"each publish keeps {growth} bytes", *map(str, differences[:9])])
