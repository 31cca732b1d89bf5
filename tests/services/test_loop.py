"""A loop goes on whatever goes wrong, tells it once, rests longer each time, and ends in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.comment_loop_bed import RecordedLog
from tests.support.waiting import eventually

from allotment.adapters.backoff import Backoff
from allotment.problems import OperationRefused
from allotment.services import loop
from allotment.services.loop import Failure, Loop, LoopTiming

USUAL = LoopTiming(30, 60)


class Counted(Loop):
    """A loop whose turns are what a test says, the last one again and again."""

    def __init__(self, *turns: Callable[[], Failure | None], pace: LoopTiming = USUAL, leads: bool = True) -> None:
        self.event_log, self.reasons, self.turns, self.stood_by = RecordedLog(), list[str](), list(turns), 0
        self.leads = leads
        self.began: list[float] = []
        super().__init__(pace, self.event_log, "nothing done", self.reasons.append, lambda: self.leads)

    display_url = "here"

    def run_once(self) -> Failure | None:
        self.began.append(time.monotonic())
        return (self.turns.pop(0) if len(self.turns) > 1 else self.turns[0])()

    def on_leadership_lost(self) -> None:
        self.stood_by += 1


def well() -> None:
    return None


def raising(error: Exception) -> Callable[[], Failure | None]:
    def turn() -> Failure | None:
        raise error

    return turn


@contextmanager
def running(running_loop: Loop) -> Iterator[None]:
    thread = threading.Thread(target=running_loop.run)
    thread.start()
    try:
        yield
    finally:
        running_loop.stop()
        thread.join(10)
        assert not thread.is_alive()


def until(check: Callable[[], Any]) -> None:
    eventually(check, "the loop", 10, pause=0.005)


def test_a_turn_that_reaches_all_makes_it_ready() -> None:
    counted_loop = Counted(well)
    assert not counted_loop.ready()
    counted_loop.tick()
    assert counted_loop.ready()
    assert counted_loop.reasons == []


def test_the_loop_counts_each_failure_and_logs_a_repeated_failure_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    counted_loop = Counted(raising(OperationRefused("away")))
    for _ in range(3):
        counted_loop.tick()
    assert counted_loop.reasons == ["refused"] * 3
    assert counted_loop.event_log.events == [("nothing done", {"reason": "refused", "message": "away"})]
    assert not counted_loop.ready()
    monkeypatch.setattr(loop, "REPEAT_LOG_SECONDS", 0.0)
    counted_loop.tick()
    assert len(counted_loop.event_log.events) == 2


def test_a_bug_of_ours_is_told_with_where_it_was_and_ends_nothing() -> None:
    counted_loop = Counted(raising(ZeroDivisionError("by zero")), well)
    counted_loop.tick()
    ((_, about),) = counted_loop.event_log.events
    assert about["reason"] == "bug"
    assert "raise error" in about["message"]
    counted_loop.tick()
    assert counted_loop.ready()


def test_an_error_that_went_and_came_back_is_told_again() -> None:
    counted_loop = Counted(raising(OperationRefused("away")), well, raising(OperationRefused("away")))
    for _ in range(3):
        counted_loop.tick()
    assert len(counted_loop.event_log.events) == 2


def test_a_failure_that_no_restart_mends_leaves_it_ready() -> None:
    counted_loop = Counted(lambda: Failure("platform-invalid", "wrong", connected=True))
    counted_loop.tick()
    assert counted_loop.ready()
    assert counted_loop.reasons == ["platform-invalid"]


def test_after_each_error_it_rests_twice_as_long_up_to_a_limit() -> None:
    counted_loop = Counted(raising(OperationRefused("away")), pace=LoopTiming(30, 60, backoff=Backoff(1.0, 4.0)))
    rests = []
    for _ in range(5):
        counted_loop.tick()
        rests.append(counted_loop._retry_at - time.monotonic())
    for rest, expected in zip(rests, (1, 2, 4, 4, 4), strict=True):
        assert 0.74 * expected < rest <= 1.25 * expected


def test_the_loop_waits_for_the_retry_after() -> None:
    counted_loop = Counted(
        lambda: Failure("rate-limited", "later", retry_after=100.0),
        pace=LoopTiming(30, 60, backoff=Backoff(1.0, 4.0)),
    )
    counted_loop.tick()
    assert 99 < counted_loop._retry_at - time.monotonic() <= 100


def test_the_loop_takes_no_turn_during_the_backoff_despite_wakes() -> None:
    counted_loop = Counted(
        raising(OperationRefused("away")), well, pace=LoopTiming(0.01, 60, backoff=Backoff(0.4, 0.4))
    )
    with running(counted_loop):
        until(lambda: counted_loop.began)
        for _ in range(20):
            counted_loop.wake()
            time.sleep(0.005)
        until(lambda: len(counted_loop.began) > 1)
    assert counted_loop.began[1] - counted_loop.began[0] > 0.29


def test_being_woken_begins_the_next_turn() -> None:
    counted_loop = Counted(well, pace=LoopTiming(600, 600))
    with running(counted_loop):
        until(lambda: len(counted_loop.began) == 1)
        counted_loop.wake()
        until(lambda: len(counted_loop.began) == 2)


def test_a_standby_loop_takes_no_turn_and_is_ready() -> None:
    counted_loop = Counted(well, leads=False)
    counted_loop.tick()
    assert (counted_loop.began, counted_loop.stood_by, counted_loop.ready()) == ([], 1, True)
    counted_loop.leads = True
    counted_loop.tick()
    assert len(counted_loop.began) == 1


def test_a_turn_that_takes_too_long_has_stalled() -> None:
    counted_loop = Counted(well, pace=LoopTiming(0.001, 0.05))
    counted_loop.heartbeat()
    assert counted_loop.alive()
    time.sleep(0.1)
    assert not counted_loop.alive()
    counted_loop.heartbeat()
    assert counted_loop.alive()
