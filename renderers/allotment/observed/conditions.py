"""Conditions as Kubernetes has them: what was found now, with the time of what hasn't changed since the last look."""

from __future__ import annotations

from typing import NamedTuple

from allotment import conditions as word
from allotment.observed.objects import Application
from allotment.observed.status import Condition


class Found(NamedTuple):
    """A condition as it is now; `time` is when it came about, where an object says so."""

    type: str
    status: str
    reason: str
    message: str = ""
    time: str = ""


def condition(found: Found, before: Condition | None, now: str) -> Condition:
    """Return a condition, whose time stands while its status does. No time lies in the future or goes back."""
    if before is not None and before.status == found.status:
        time = before.last_transition_time
    else:
        time = min(found.time or now, now)
        if before is not None:
            time = max(time, before.last_transition_time)
    return Condition(found.type, found.status, found.reason, found.message, time)


def synced(application: Application | None, kind: str, name: str, *, live: bool) -> Found:
    """Return whether Argo CD has applied an object as it is published. `live` says whether the object is there."""
    if application is None:
        return Found(word.SYNCED, "Unknown", word.NOT_OBSERVED, "Argo CD says nothing of it")
    if (kind, name) in application.failed or (application.phase in ("Failed", "Error") and not live):
        return Found(word.SYNCED, "False", word.SYNC_FAILED, "Argo CD couldn't apply it: its dashboard says why")
    if (kind, name) in application.differing:
        return Found(word.SYNCED, "False", word.OUT_OF_SYNC, "the cluster doesn't have it as it is published yet")
    if (kind, name) in application.resources:
        return Found(word.SYNCED, "True", word.APPLIED)
    return Found(word.SYNCED, "Unknown", word.NOT_OBSERVED, "Argo CD hasn't looked at it yet")
