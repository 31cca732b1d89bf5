"""Finds the gaps in the observation of a cluster, in which the end of a use is uncertain."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from typing import Protocol

from allotment.observed.conditions import seconds_between
from allotment.observed.status import GAP, UsageInterval

SILENT_SECONDS = 180  # after this time without a message, a watch has missed three bookmark events
SETTLE_SECONDS = 60  # after a silence, the watches may need this time until they have delivered every change
MAX_GAPS = 1_000  # gaps that are stored while nothing can be pushed
_USAGE_KINDS = frozenset(
    {
        "pods",
        "deployments",
        "replicasets",
        "persistentvolumeclaims",
        "objectbucketclaims",
        "volumesnapshots",
        "nodes",
    }
)


class WatchState(Protocol):
    """The state of one of the cluster's watches; `name` is the watched kind."""

    name: str
    synced: bool
    contact: float
    trouble: str


def measure_silence(watches: Sequence[WatchState]) -> float:
    """Return the seconds since the last message on the watch that has been silent for the longest time."""
    return time.monotonic() - min(watch.contact for watch in watches)


def subtract_seconds(now: str, seconds: float) -> str:
    """Return the time some seconds before `now`, rounded up to a second."""
    moment = datetime.datetime.fromisoformat(now) - datetime.timedelta(seconds=int(seconds))
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class GapFinder:
    """Finds gaps from the silence of the watches of objects that use capacity. `pending` are the gaps that ended."""

    def __init__(self, cluster: str, watches: Sequence[WatchState]) -> None:
        self._cluster = cluster
        self._watches = [watch for watch in watches if watch.name in _USAGE_KINDS]
        self._last_observed_at = ""
        self._gap_start = ""
        self._gap_end = ""
        self._was_silent = False
        self._restart = self._short_gap = (
            ""  # the time of the status that this process continues; the last result, if it was short
        )
        self.pending: list[UsageInterval] = []

    def resume(self, written_at: str) -> None:
        """Continue after the status of the time `written_at`. If this process observed the cluster later, there is no gap."""
        if written_at > self._last_observed_at:
            self._last_observed_at = self._restart = written_at

    def keep_open(self, start: str) -> None:
        """Let the next observation have the gap again, because the last one failed."""
        if start and start == self._short_gap:
            self._restart = start
        else:
            self._gap_start = start or self._gap_start

    def forget(self) -> None:
        """Forget the observations of this process, because another replica reports the cluster."""
        self._last_observed_at = self._gap_start = self._gap_end = ""
        self._restart = self._short_gap = ""
        self._was_silent = False
        self.pending.clear()

    def find_gap(self, now: str) -> str:
        """Return the start of the gap before `now`, in which a change may have happened that is seen now; empty if none.

        A gap starts with the last message of the watch that has been silent for the longest time. It ends when all
        watches have a message again, and is then pending. The time between two reporters is a gap that never becomes pending
        if it is short.
        """
        silence = measure_silence(self._watches)
        is_silent = silence > SILENT_SECONDS
        last = min(self._last_observed_at, now)  # the clock may have been set back
        restart, self._restart = min(self._restart, now), ""
        if not self._gap_start and last and (is_silent or seconds_between(last, now) > SILENT_SECONDS):
            self._gap_start, self._gap_end = last, ""
        if is_silent:
            self._was_silent, self._gap_end = True, ""
            return self._gap_start
        self._last_observed_at = max(last, subtract_seconds(now, silence))
        start = self._gap_start
        if start and not self._gap_end:
            self._gap_end = now
            if len(self.pending) < MAX_GAPS:
                self.pending.append(UsageInterval(GAP, self._cluster, "", start, now))
        if not (start and self._was_silent and seconds_between(self._gap_end, now) < SETTLE_SECONDS):
            self._gap_start, self._was_silent = "", False
        self._short_gap = "" if start else restart
        return start or restart
