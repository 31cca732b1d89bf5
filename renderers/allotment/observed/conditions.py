"""Builds conditions as Kubernetes defines them: a condition keeps its time while its status is unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from allotment import conditions as word
from allotment.observed.objects import Application
from allotment.observed.status import Condition, parse_time

COMPARISON_FAILED_TEXT = "Argo CD can't compare its Application with the published version, and applies no change of it"
UNKNOWN_SYNC = "Unknown"  # the sync status of an Application after a comparison error


class ConditionValue(NamedTuple):
    """The current value of a condition: its status and the reason."""

    status: str
    reason: str
    message: str = ""


class ConditionBuilder:
    """Collects the conditions of one resource. A condition with an unchanged status keeps its time from `previous`."""

    def __init__(self, previous: Sequence[Condition], now: str) -> None:
        self._previous = {condition.type: condition for condition in previous}
        self._now = now
        self._conditions: list[Condition] = []

    def add(self, kind: str, status: str, reason: str, message: str = "", time: str = "") -> None:
        """Add a condition.

        If an object records when the cause of the condition happened, `time` is that time. The time of a condition is
        never in the future and never decreases.
        """
        since = time if time and time < self._now else self._now
        previous = self._previous.get(kind)
        if previous is not None:
            previous_time = previous.last_transition_time
            since = previous_time if previous.status == status or previous_time > since else since
        self._conditions.append(Condition(kind, status, reason, message, since))

    def build(self) -> tuple[Condition, ...]:
        """Return the conditions in the order in which they were added."""
        return tuple(self._conditions)


def add_deletion_conditions(conditions: ConditionBuilder, marked: bool, unprotected: bool) -> None:
    """Add a condition for each deletion step that an object with data has reached: marked, and unprotected."""
    if marked:
        conditions.add(word.MARKED_FOR_DELETION, "True", word.DELETION_DECLARED)
    if unprotected:
        conditions.add(word.UNPROTECTED, "True", word.LET_GO)


def seconds_between(time: str, now: str) -> float:
    """Return the seconds between two times. Raises ValueError if one of them is not a time with a time zone."""
    begin, end = parse_time(time), parse_time(now)
    if begin is None or end is None:
        raise ValueError(f"{time!r} or {now!r} is not a time with a time zone")
    return (end - begin).total_seconds()


def derive_synced_condition(application: Application | None, kind: str, name: str, *, live: bool) -> ConditionValue:
    """Return the condition Synced of an object: whether Argo CD has applied the object's published version.

    `live` says whether the object exists in the cluster.
    """
    if application is None:
        return ConditionValue("Unknown", word.NOT_OBSERVED, "Argo CD has no status for it")
    if application.sync == UNKNOWN_SYNC:  # what it says of each object is that of the last comparison
        return ConditionValue("Unknown", word.COMPARISON_FAILED, COMPARISON_FAILED_TEXT)
    if (kind, name) in application.failed or (application.phase in ("Failed", "Error") and not live):
        return ConditionValue("False", word.SYNC_FAILED, "Argo CD couldn't apply it: its dashboard shows the error")
    if (kind, name) in application.out_of_sync:
        return ConditionValue("False", word.OUT_OF_SYNC, "the cluster doesn't have the published version yet")
    if (kind, name) in application.resources:
        return ConditionValue("True", word.APPLIED)
    return ConditionValue("Unknown", word.NOT_OBSERVED, "Argo CD hasn't compared it yet")
