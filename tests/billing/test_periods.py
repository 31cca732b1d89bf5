"""Days start at midnight of the billing time zone, also when the clocks change, and no second is lost or counted twice."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.billing.periods import (
    Period,
    find_midnight,
    format_moment,
    month_period,
    parse_moment,
    split_days,
    split_hours,
    split_interval,
)

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [
    ZoneInfo(name)
    for name in ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Santiago", "Asia/Beirut")
]


@pytest.mark.parametrize(
    ("month", "start", "hours"),
    [
        ("2026-02", "2026-01-31T23:00:00Z", 28 * 24),
        ("2026-03", "2026-02-28T23:00:00Z", 31 * 24 - 1),
        ("2026-10", "2026-09-30T22:00:00Z", 31 * 24 + 1),
        ("2026-12", "2026-11-30T23:00:00Z", 31 * 24),
    ],
)
def test_a_month_has_the_hours_of_its_time_zone(month: str, start: str, hours: int) -> None:
    period = month_period(month, BERLIN)
    assert (format_moment(period.start), (period.end - period.start) / 3600) == (start, hours)


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-00", "2026-1", "november", "0000-01", "0001-01", "9999-12", "٢٠٢٦-11", "2026-11-01", ""]
)
def test_month_period_refuses_an_invalid_month(text: str) -> None:
    with pytest.raises(ValueError):
        month_period(text, BERLIN)


def test_a_day_without_midnight_starts_with_its_first_moment() -> None:
    santiago = ZoneInfo("America/Santiago")
    start = find_midnight(datetime.date(2026, 9, 6), santiago)
    assert format_moment(start, santiago) == "2026-09-06T01:00:00-03:00"
    assert format_moment(start - 1, santiago) == "2026-09-05T23:59:59-04:00"


def test_the_day_of_a_clock_change_has_23_or_25_hours() -> None:
    for day, hours in ((29, 23), (30, 24)):
        start = find_midnight(datetime.date(2026, 3, day), BERLIN)
        period = Period(start, find_midnight(datetime.date(2026, 3, day + 1), BERLIN))
        assert len(split_hours(period, BERLIN)) == hours
    october = Period(
        find_midnight(datetime.date(2026, 10, 25), BERLIN), find_midnight(datetime.date(2026, 10, 26), BERLIN)
    )
    labels = [format_moment(hour, BERLIN) for hour in split_hours(october, BERLIN)]
    assert len(set(labels)) == len(labels) == 25
    assert labels[2:4] == ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]


MOMENTS = st.integers(parse_moment("2020-01-01T00:00:00Z"), parse_moment("2030-01-01T00:00:00Z"))


@given(MOMENTS, st.integers(1, 100 * 86_400), st.sampled_from(ZONES))
def test_days_and_hours_cover_a_period(start: int, length: int, zone: ZoneInfo) -> None:
    period = Period(start, start + length)
    for starts in (split_days(period, zone), split_hours(period, zone)):
        assert starts[0] == period.start
        assert starts == sorted(set(starts))
        assert starts[-1] < period.end
    days = split_days(period, zone)
    assert all(
        datetime.datetime.fromtimestamp(day, zone).date() > datetime.datetime.fromtimestamp(day - 1, zone).date()
        for day in days[1:]
    )
    assert set(days) <= set(split_hours(period, zone))


@given(st.lists(st.integers(0, 100), min_size=1, unique=True), st.integers(0, 100), st.integers(0, 100))
def test_the_parts_of_an_interval_are_the_interval(boundaries: list[int], start: int, length: int) -> None:
    boundaries = sorted({0, *boundaries})
    parts = split_interval(start, start + length, boundaries)
    assert sum(end - begin for _, begin, end in parts) == length
    for index, begin, end in parts:
        assert boundaries[index] <= begin < end
        assert index + 1 == len(boundaries) or end <= boundaries[index + 1]
    assert [begin for _, begin, _ in parts[1:]] == [end for _, _, end in parts[:-1]]
