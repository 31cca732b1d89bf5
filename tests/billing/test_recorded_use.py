"""An interval of a status becomes a use, and no object uses two things at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.billing.uses import START, stored, unit

from allotment.billing.periods import parse_moment
from allotment.billing.recorded_use import MAX_SIZE, Use, drop_overlaps, merge_gaps, read_interval
from allotment.observed.status import UsageInterval

AT = "2026-11-21T10:{:02d}:00Z"


def read(observed: int = 50, **times: str) -> Use:
    interval = UsageInterval("GPUInstance", "webui", "p1", AT.format(10), gpu_spec="l4", labels={"film": "7"}, **times)
    return read_interval(interval, "eu-1", "kite", parse_moment(AT.format(observed)), "c0ffee")


def minutes(use: Use) -> tuple[int, int, int]:
    begin = parse_moment(AT.format(0))
    return (use.start - begin) // 60, (use.certain_end - begin) // 60, (use.end - begin) // 60


def test_an_interval_that_continues_is_certain_until_the_last_observation() -> None:
    use = read()
    assert (minutes(use), use.is_open) == ((10, 50, 50), True)
    assert (use.tenant, use.offer, use.size, use.labels) == ("kite", "l4", 0, {"film": "7"})
    assert minutes(read(observed=5)) == (10, 10, 10), "the clock was set back"


def test_an_end_that_nobody_observed_is_uncertain() -> None:
    assert minutes(read(end_time=AT.format(30))) == (10, 30, 30)
    assert minutes(read(end_time=AT.format(30), last_observed_at=AT.format(20))) == (10, 20, 30)
    assert minutes(read(end_time=AT.format(30), last_observed_at=AT.format(40))) == (10, 30, 30)
    assert minutes(read(end_time=AT.format(30), last_observed_at=AT.format(1))) == (10, 10, 30)


def test_a_storage_has_its_size_in_bytes() -> None:
    interval = UsageInterval("GPUStorage", "models", "c1", AT.format(10), size="20Gi", storage_spec="fast")
    use = read_interval(interval, "eu-1", "kite", parse_moment(AT.format(50)), "c0ffee")
    assert (use.offer, use.size) == ("fast", 20 << 30)


@pytest.mark.parametrize(
    ("size", "number"), [("-1Gi", 0), ("much", 0), ("", 0), ("9e99", MAX_SIZE), ("1500M", 1_500_000_000)]
)
def test_a_size_that_no_storage_has_is_bounded(size: str, number: int) -> None:
    interval = UsageInterval("GPUStorage", "models", "c1", AT.format(10), size=size)
    assert read_interval(interval, "eu-1", "kite", parse_moment(AT.format(50)), "c0ffee").size == number


def test_a_repeated_interval_counts_once() -> None:
    use = unit(0, 100)
    assert drop_overlaps([use, use]) == [use]
    other = unit(50, 100, uid="p-other")
    assert drop_overlaps([other, use]) == [use, other], "two pods of an instance use two units"


def test_a_certain_end_counts_if_the_interval_was_recorded_twice() -> None:
    certain, uncertain = unit(0, 100), unit(0, 300, certain_end=START + 50)
    assert drop_overlaps([uncertain, certain]) == drop_overlaps([certain, uncertain]) == [certain]


def test_overlapping_gaps_are_one() -> None:
    assert merge_gaps([(5, 9), (1, 3), (2, 4), (9, 10), (20, 30), (22, 23)]) == [(1, 4), (5, 10), (20, 30)]


def test_a_volume_that_grew_while_the_clock_was_set_back_has_one_size_at_a_time() -> None:
    small, large = stored(0, 1000), stored(500, 2000, gib=20)
    assert drop_overlaps([small, large]) == [small, stored(1000, 2000, gib=20)]
    assert drop_overlaps([small, stored(500, 900, gib=20)]) == [small]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.sampled_from("ab")), max_size=12))
def test_the_uses_of_an_object_never_overlap(times: list[tuple[int, int, str]]) -> None:
    uses = drop_overlaps(unit(start, start + length, uid=uid) for start, length, uid in times)
    covered = {
        uid: {second for start, length, other in times if other == uid for second in range(start, start + length)}
        for uid in "ab"
    }
    for uid in "ab":
        seconds = [each for use in uses if use.uid == uid for each in range(use.start - START, use.end - START)]
        assert len(seconds) == len(set(seconds))
        assert set(seconds) == covered[uid]
    assert all(use.start <= use.certain_end <= use.end for use in uses)
