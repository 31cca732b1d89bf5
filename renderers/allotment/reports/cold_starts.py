"""Format the duration of a cold start, in the same way for the stock list, a cluster's page and a plan."""

from __future__ import annotations

from allotment.diff.cold_starts import ColdStartTime

UNKNOWN_DURATION = "not known yet"


def format_duration(seconds: int) -> str:
    """Return a duration in words, without units that are too small to matter: 45 s, 6 min, 2 h 10 min."""
    if seconds < 90:
        return f"{seconds} s"
    minutes = (seconds + 30) // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def format_cold_start(time: ColdStartTime | None) -> str:
    """Return a text with the waiting time for a node, and the number of cold starts in which it was measured."""
    if time is None:
        return UNKNOWN_DURATION
    if time.start_count == 1:
        return f"{format_duration(time.median_seconds)} in the 1 start seen"
    return f"{format_duration(time.median_seconds)} at the median of {time.start_count} starts, {format_duration(time.longest_seconds)} at most"
