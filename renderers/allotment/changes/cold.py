"""Which starts of a change find no unit kept warm, so that a node comes first."""

from __future__ import annotations

from typing import NamedTuple


class ColdTime(NamedTuple):
    """How long nodes took to come, in seconds: of so many starts the median, and the longest."""

    starts: int
    median: int
    longest: int
