"""Computes the point of no return of a removed volume: the deadline for a new declaration that keeps its data.

The volume of a removed storage or snapshot stays protected until a grace period has passed: `spec.deletion.after`. The
grace period begins when the cluster first reports that the volume is marked for deletion (`lifecycle/deletion_steps`).
After the grace period, Argo CD may delete the volume at any moment, and a new declaration gets a new, empty volume.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from allotment import conditions as word
from allotment.declared.values import format_duration
from allotment.observed.status import Condition, parse_time

DATA_LOST_TEXT = "its data may be deleted at any moment: a new declaration of its name gets a new, empty volume"


def find_marked_since(conditions: Iterable[Condition]) -> str:
    """Return the time when a volume's mark for deletion was first seen; empty if the volume isn't marked.

    The time is from the API server's clock.
    """
    marks = (
        condition.last_transition_time or ""
        for condition in conditions
        if condition.type == word.MARKED_FOR_DELETION and condition.status == "True"
    )
    return next(marks, "")


def compute_point_of_no_return(marked: str, after: float) -> datetime.datetime | None:
    """Return the UTC time from which a volume may be deleted: `after` seconds after the time `marked`.

    Returns None if the volume is not marked, or if the time is out of the calendar's range.
    """
    moment = parse_time(marked)
    try:
        return (moment + datetime.timedelta(seconds=after)).astimezone(datetime.UTC) if moment is not None else None
    except OverflowError:
        return None


def describe_data_deadline(marked: str, after: float) -> str:
    """Return a text with the deadline for a new declaration that keeps the data of a protected volume.

    `marked` is the time when the volume's mark for deletion was first seen; empty if the volume isn't marked.
    """
    point = compute_point_of_no_return(marked, after)
    if point is None:
        until = f"its cluster has reported it as marked for deletion for {format_duration(after)}"
        return f"until {until}, publishing a declaration with its name keeps the data"
    time = point.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"until {time}, publishing a declaration with its name keeps the data"
