"""How long a cold start takes, in words: the same for the stock list, a cluster's page and a plan."""

from __future__ import annotations

from allotment.changes.cold import ColdTime

NOT_KNOWN = "not known yet"


def lasting(seconds: int) -> str:
    """Return a duration in words, rounded to what matters of it: 45 s, 6 min, 2 h 10 min."""
    if seconds < 90:
        return f"{seconds} s"
    minutes = (seconds + 30) // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def cold_words(time: ColdTime | None) -> str:
    """Return how long nodes took to come, and by how many starts that is known."""
    if time is None:
        return NOT_KNOWN
    if time.starts == 1:
        return f"{lasting(time.median)} in the 1 start seen"
    return f"{lasting(time.median)} at the median of {time.starts} starts, {lasting(time.longest)} at most"
