"""Conditions as Kubernetes has them: what was found now, with the time of what hasn't changed since the last look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.observed.objects import Application
from allotment.observed.status import Condition, moment_of


class Found(NamedTuple):
    """How a condition stands now: its status, and why."""

    status: str
    reason: str
    message: str = ""


class Conditions:
    """The conditions of one thing as they are found; `previous` has the times of those whose status stands."""

    def __init__(self, previous: Sequence[Condition], now: str) -> None:
        self._known = {condition.type: condition for condition in previous}
        self._now = now
        self._found: list[Condition] = []

    def add(self, kind: str, status: str, reason: str, message: str = "", time: str = "") -> None:
        """Note a condition; `time` is when it came about, where an object says so. No time lies ahead or goes back."""
        since = time if time and time < self._now else self._now
        previous = self._known.get(kind)
        if previous is not None:
            previous_time = previous.last_transition_time
            since = previous_time if previous.status == status or previous_time > since else since
        self._found.append(Condition(kind, status, reason, message, since))

    def all(self) -> tuple[Condition, ...]:
        """Return them in the order in which they were noted."""
        return tuple(self._found)


def add_departure(conditions: Conditions, marked: bool, unprotected: bool) -> None:
    """Note how far what holds data is on its way out: since when the cluster has it marked, and since when it may go."""
    if marked:
        conditions.add(word.MARKED, "True", word.DELETION_DECLARED)
    if unprotected:
        conditions.add(word.UNPROTECTED, "True", word.LET_GO)


def seconds_between(time: str, now: str) -> float:
    """Return the seconds between two times. Raises ValueError where one of them is no time with a time zone."""
    begin, end = moment_of(time), moment_of(now)
    if begin is None or end is None:
        raise ValueError(f"{time!r} or {now!r} is no time with a time zone")
    return (end - begin).total_seconds()


def synced(application: Application | None, kind: str, name: str, *, live: bool) -> Found:
    """Return whether Argo CD has applied an object as it is published. `live` says whether the object is there."""
    if application is None:
        return Found("Unknown", word.NOT_OBSERVED, "Argo CD says nothing of it")
    if (kind, name) in application.failed or (application.phase in ("Failed", "Error") and not live):
        return Found("False", word.SYNC_FAILED, "Argo CD couldn't apply it: its dashboard says why")
    if (kind, name) in application.differing:
        return Found("False", word.OUT_OF_SYNC, "the cluster doesn't have it as it is published yet")
    if (kind, name) in application.resources:
        return Found("True", word.APPLIED)
    return Found("Unknown", word.NOT_OBSERVED, "Argo CD hasn't looked at it yet")
