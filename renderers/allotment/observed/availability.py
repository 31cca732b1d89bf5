"""Measures how long an instance ran, of the time in which it was declared to run, from its changes of state."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.conditions import FAILED, INIT, READY, RUNNING, WAITING

_WANTED = frozenset((INIT, READY, RUNNING, WAITING, FAILED))  # an instance in these states is declared to run


class StateStep(NamedTuple):
    """A change of an instance's state at a time, in seconds since 1970."""

    time: int
    source: str
    target: str


class DayAvailability(NamedTuple):
    """The seconds of a day in which an instance was declared to run, and those of them in which it ran."""

    day: datetime.date
    declared: int
    running: int


def measure_availability(
    steps: Iterable[StateStep], state: str, starts: Sequence[int], end: int, zone: datetime.tzinfo
) -> list[DayAvailability]:
    """Return the availability of each day. `starts` are the starts of the days, and the last day ends at `end`.

    `state` is the state of an instance without a change. An unknown state, such as that before the first report, doesn't
    count.
    """
    ordered = sorted(steps, key=lambda step: step.time)  # changes of the same second keep their order
    current = ordered[0].source if ordered else state
    segments: list[tuple[int, int, str]] = []
    time = starts[0]
    for step in ordered:
        if step.time > time:
            segments.append((time, min(step.time, end), current))
            time = min(step.time, end)
        current = step.target
    segments.append((time, end, current))
    days = []
    for index, start in enumerate(starts):
        until = starts[index + 1] if index + 1 < len(starts) else end
        declared = running = 0
        for begin, finish, name in segments:
            seconds = max(0, min(finish, until) - max(begin, start))
            declared += seconds if name in _WANTED else 0
            running += seconds if name == RUNNING else 0
        days.append(DayAvailability(datetime.datetime.fromtimestamp(start, zone).date(), declared, running))
    return days
