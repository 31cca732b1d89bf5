"""A loop goes on whatever goes wrong, tells it once, rests longer each time, and ends in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.pipeline.pulls.test_commenting import Said

from allotment.pipeline import loop
from allotment.pipeline.loop import Failure, Loop, Pace
from allotment.problems import Refused

USUAL = Pace(30, 60)


class Counted(Loop):
    """A loop whose turns are what a test says, the last one again and again."""

    def __init__(self, *turns: Callable[[], Failure | None], pace: Pace = USUAL, leads: bool = True) -> None:
        self.said, self.reasons, self.turns, self.stood_by = Said(), list[str](), list(turns), 0
        self.leads = leads
        self.began: list[float] = []
        super().__init__(pace, self.said, "nothing done", self.reasons.append, lambda: self.leads)

    where = "here"

    def turn(self) -> Failure | None:
        self.began.append(time.monotonic())
        return (self.turns.pop(0) if len(self.turns) > 1 else self.turns[0])()

    def stand_by(self) -> None:
        self.stood_by += 1


def well() -> None:
    return None


def raising(error: Exception) -> Callable[[], Failure | None]:
    def turn() -> Failure | None:
        raise error

    return turn


@contextmanager
def running(one: Loop) -> Iterator[None]:
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        yield
    finally:
        one.stop()
        thread.join(10)
        assert not thread.is_alive()


def until(check: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not check():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_turn_that_reaches_all_makes_it_ready() -> None:
    one = Counted(well)
    assert not one.ready()
    one.once()
    assert one.ready()
    assert one.reasons == []


def test_what_stays_wrong_is_counted_each_time_and_told_once_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Counted(raising(Refused("away")))
    for _ in range(3):
        one.once()
    assert one.reasons == ["refused"] * 3
    assert one.said.events == [("nothing done", {"reason": "refused", "message": "away"})]
    assert not one.ready()
    monkeypatch.setattr(loop, "TOLD_SECONDS", 0.0)
    one.once()
    assert len(one.said.events) == 2


def test_a_bug_of_ours_is_told_with_where_it_was_and_ends_nothing() -> None:
    one = Counted(raising(ZeroDivisionError("by zero")), well)
    one.once()
    ((_, about),) = one.said.events
    assert about["reason"] == "bug"
    assert "raise error" in about["message"]
    one.once()
    assert one.ready()


def test_an_error_that_went_and_came_back_is_told_again() -> None:
    one = Counted(raising(Refused("away")), well, raising(Refused("away")))
    for _ in range(3):
        one.once()
    assert len(one.said.events) == 2


def test_a_failure_that_no_restart_mends_leaves_it_ready() -> None:
    one = Counted(lambda: Failure("platform-invalid", "wrong", reached=True))
    one.once()
    assert one.ready()
    assert one.reasons == ["platform-invalid"]


def test_after_each_error_it_rests_twice_as_long_up_to_a_limit() -> None:
    one = Counted(raising(Refused("away")), pace=Pace(30, 60, first=1.0, longest=4.0))
    rests = []
    for _ in range(5):
        one.once()
        rests.append(one._again - time.monotonic())
    for rest, expected in zip(rests, (1, 2, 4, 4, 4), strict=True):
        assert 0.74 * expected < rest <= 1.25 * expected


def test_it_rests_as_long_as_it_is_told() -> None:
    one = Counted(lambda: Failure("rate-limited", "later", seconds=100.0), pace=Pace(30, 60, first=1.0, longest=4.0))
    one.once()
    assert 99 < one._again - time.monotonic() <= 100


def test_it_takes_no_turn_while_it_rests_however_often_it_is_woken() -> None:
    one = Counted(raising(Refused("away")), well, pace=Pace(0.01, 60, first=0.4, longest=0.4))
    with running(one):
        until(lambda: one.began)
        for _ in range(20):
            one.wake()
            time.sleep(0.005)
        until(lambda: len(one.began) > 1)
    assert one.began[1] - one.began[0] > 0.29


def test_being_woken_begins_the_next_turn() -> None:
    one = Counted(well, pace=Pace(600, 600))
    with running(one):
        until(lambda: len(one.began) == 1)
        one.wake()
        until(lambda: len(one.began) == 2)


def test_who_stands_by_takes_no_turn_and_is_ready() -> None:
    one = Counted(well, leads=False)
    one.once()
    assert (one.began, one.stood_by, one.ready()) == ([], 1, True)
    one.leads = True
    one.once()
    assert len(one.began) == 1


def test_a_turn_that_takes_too_long_has_stalled() -> None:
    one = Counted(well, pace=Pace(0.001, 0.05))
    one.goes_on()
    assert one.alive()
    time.sleep(0.1)
    assert not one.alive()
    one.goes_on()
    assert one.alive()
