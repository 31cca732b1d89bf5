"""Computes with periods, and with the days and hours of a time zone, in seconds since 1970 in UTC."""

from __future__ import annotations

import datetime
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

HOUR_SECONDS = 3600
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
FIRST_YEAR, LAST_YEAR = 1971, 9998  # every time zone can represent all times of these years


class Period(NamedTuple):
    """The time from `start` until `end`, without `end`, in seconds since 1970 in UTC."""

    start: int
    end: int

    def clip(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of an interval within the period. If there is none, the part has the length 0."""
        begin = min(max(start, self.start), self.end)
        return begin, max(begin, min(end, self.end))


def find_midnight(day: datetime.date, zone: datetime.tzinfo) -> int:
    """Return the time at which a day starts.

    If the clocks are set forward at midnight, this is the first moment after it; if midnight occurs twice, the first.
    """
    return int(datetime.datetime.combine(day, datetime.time(), zone).timestamp())


def find_day(moment: int, zone: datetime.tzinfo) -> datetime.date:
    """Return the day of a time."""
    return datetime.datetime.fromtimestamp(moment, zone).date()


def month_period(month: str, zone: datetime.tzinfo) -> Period:
    """Return the period of a month, such as 2026-11. Raises ValueError if the text is no month."""
    match = _MONTH.fullmatch(month)
    if match is None or not FIRST_YEAR <= int(match[1]) <= LAST_YEAR:
        raise ValueError(f"{month!r} is no month: write YYYY-MM, such as 2026-11")
    year, number = int(match[1]), int(match[2])
    first = datetime.date(year, number, 1)
    following = datetime.date(year + number // 12, number % 12 + 1, 1)
    return Period(find_midnight(first, zone), find_midnight(following, zone))


def split_days(period: Period, zone: datetime.tzinfo) -> list[int]:
    """Return the start of the period, and each midnight within it."""
    day = find_day(period.start, zone)
    starts = [period.start]
    while True:
        day += datetime.timedelta(days=1)
        midnight = find_midnight(day, zone)
        if midnight >= period.end:
            return starts
        if midnight > starts[-1]:
            starts.append(midnight)


def split_hours(period: Period, zone: datetime.tzinfo) -> list[int]:
    """Return the start of the period, and the start of each hour of its days within it.

    The hours of a day count from its midnight, so a day with a change of the clocks has 23 or 25 hours.
    """
    starts = [period.start]
    days = split_days(period, zone)
    midnights = [find_midnight(find_day(period.start, zone), zone), *days[1:], period.end]
    for midnight, following in pairwise(midnights):
        starts += [hour for hour in range(midnight, following, HOUR_SECONDS) if starts[-1] < hour < period.end]
    return starts


def split_interval(start: int, end: int, boundaries: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the parts of an interval between the sorted boundaries: the index of the boundary before it, start, end.

    An interval of the length 0 has no parts. The first boundary must not be after the start.
    """
    parts = []
    index = bisect_right(boundaries, start) - 1
    while start < end:
        until = min(end, boundaries[index + 1]) if index + 1 < len(boundaries) else end
        parts.append((index, start, until))
        start, index = until, index + 1
    return parts


def format_moment(moment: int, zone: datetime.tzinfo = datetime.UTC) -> str:
    """Return a time as RFC 3339, in UTC with Z."""
    return datetime.datetime.fromtimestamp(moment, zone).isoformat().replace("+00:00", "Z")


def parse_moment(text: str) -> int:
    """Return a time of a status, which is RFC 3339 with a time zone."""
    return int(datetime.datetime.fromisoformat(text).timestamp())


def next_month(month: str) -> str:
    """Return the month after a month, such as 2027-01 after 2026-12."""
    year, number = int(month[:4]), int(month[5:])
    return f"{year + number // 12:04}-{number % 12 + 1:02}"


def previous_month(month: str) -> str:
    """Return the month before a month, such as 2026-12 before 2027-01."""
    year, number = int(month[:4]), int(month[5:])
    return f"{year - (number == 1):04}-{(number - 2) % 12 + 1:02}"
