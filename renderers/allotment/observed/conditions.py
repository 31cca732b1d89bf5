"""Conditions as Kubernetes has them: what was found now, with the time of what hasn't changed since the last look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.observed.objects import Application
from allotment.observed.status import Condition, parse_time


class ConditionValue(NamedTuple):
    """How a condition stands now: its status, and why."""

    status: str
    reason: str
    message: str = ""


class ConditionBuilder:
    """The conditions of one thing as they are found; `previous` has the times of those whose status stands."""

    def __init__(self, previous: Sequence[Condition], now: str) -> None:
        self._previous = {condition.type: condition for condition in previous}
        self._now = now
        self._conditions: list[Condition] = []

    def add(self, kind: str, status: str, reason: str, message: str = "", time: str = "") -> None:
        """Note a condition; `time` is when it came about, where an object says so. No time lies ahead or goes back."""
        since = time if time and time < self._now else self._now
        previous = self._previous.get(kind)
        if previous is not None:
            previous_time = previous.last_transition_time
            since = previous_time if previous.status == status or previous_time > since else since
        self._conditions.append(Condition(kind, status, reason, message, since))

    def build(self) -> tuple[Condition, ...]:
        """Return them in the order in which they were noted."""
        return tuple(self._conditions)


def add_deletion_conditions(conditions: ConditionBuilder, marked: bool, unprotected: bool) -> None:
    """Note how far what holds data is on its way out: since when the cluster has it marked, and since when it may go."""
    if marked:
        conditions.add(word.MARKED_FOR_DELETION, "True", word.DELETION_DECLARED)
    if unprotected:
        conditions.add(word.UNPROTECTED, "True", word.LET_GO)


def seconds_between(time: str, now: str) -> float:
    """Return the seconds between two times. Raises ValueError where one of them is no time with a time zone."""
    begin, end = parse_time(time), parse_time(now)
    if begin is None or end is None:
        raise ValueError(f"{time!r} or {now!r} is no time with a time zone")
    return (end - begin).total_seconds()


def derive_synced_condition(application: Application | None, kind: str, name: str, *, live: bool) -> ConditionValue:
    """Return whether Argo CD has applied an object as it is published. `live` says whether the object is there."""
    if application is None:
        return ConditionValue("Unknown", word.NOT_OBSERVED, "Argo CD says nothing of it")
    if (kind, name) in application.failed or (application.phase in ("Failed", "Error") and not live):
        return ConditionValue("False", word.SYNC_FAILED, "Argo CD couldn't apply it: its dashboard says why")
    if (kind, name) in application.out_of_sync:
        return ConditionValue("False", word.OUT_OF_SYNC, "the cluster doesn't have it as it is published yet")
    if (kind, name) in application.resources:
        return ConditionValue("True", word.APPLIED)
    return ConditionValue("Unknown", word.NOT_OBSERVED, "Argo CD hasn't looked at it yet")
