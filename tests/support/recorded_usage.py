"""The usage, gaps and capacity that a reporter recorded."""

from __future__ import annotations

from typing import Any

from allotment.branches.status_branches import usage_path
from allotment.observed.status import (
    CapacityUsage,
    UsageInterval,
    parse_capacity_usage,
)
from allotment.observed.usage_log import parse_usage_log
from tests.support import live
from tests.support.published import git
from tests.support.reported import BRANCH, Bed


def read_log(bed: Bed, owner: str) -> list[UsageInterval]:
    """Return the intervals of a usage log and of the logs before it, oldest first."""
    intervals: list[UsageInterval] = []
    commit = BRANCH
    while commit:
        if not git(bed.remote, "ls-tree", commit, usage_path(owner)):
            assert commit == BRANCH
            break
        log = parse_usage_log(git(bed.remote, "show", f"{commit}:{usage_path(owner)}").encode())
        intervals[:0] = log.intervals
        commit = log.header.previous
    return intervals


def ended_usage(bed: Bed) -> list[tuple[str, str, str, str]]:
    """Return the ended intervals of the tenant, oldest first: uid, start, end, and the last observation before a gap."""
    return [
        (each.uid, each.start_time[14:19], each.end_time[14:19], each.last_observed_at[14:19])
        for each in read_log(bed, live.TENANT)
    ]


def capacity(bed: Bed) -> CapacityUsage:
    """Return the stocks and nodes."""
    return parse_capacity_usage((git(bed.remote, "show", f"{BRANCH}:capacity.yaml") + "\n").encode())


def gaps(bed: Bed) -> list[tuple[str, str]]:
    """Return the recorded gaps, oldest first."""
    return [(gap.start_time[14:19], gap.end_time[14:19]) for gap in read_log(bed, "") if gap.kind == "Gap"]


def numbered(number: int) -> tuple[dict[str, Any], ...]:
    return live.deployment(), live.replica_set(), live.pod(number=number, node="n1", scheduled=number)
