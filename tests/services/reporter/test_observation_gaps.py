"""A gap begins with the last message of a watch, and ends once every watch has delivered what changed."""

from __future__ import annotations

import time

import pytest

from allotment.observed.status import UsageInterval
from allotment.services.reporter.observation_gaps import GapFinder

AT = "2026-11-21T10:{:02d}:{:02d}Z"


class Watch:
    """A watch whose last message came some seconds ago."""

    synced = True
    trouble = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.contact = time.monotonic()

    def be_silent(self, seconds: float) -> None:
        self.contact = time.monotonic() - seconds


def gap(start: str, end: str) -> UsageInterval:
    return UsageInterval("Gap", "eu-1", "", start, end)


@pytest.fixture
def watches() -> list[Watch]:
    return [Watch("pods"), Watch("nodes"), Watch("applications")]


@pytest.fixture
def finder(watches: list[Watch]) -> GapFinder:
    finder = GapFinder("eu-1", watches)
    assert finder.find_gap(AT.format(0, 0)) == ""
    return finder


def test_a_quiet_cluster_has_no_gap(finder: GapFinder, watches: list[Watch]) -> None:
    for minute in range(1, 30):
        watches[minute % 2].be_silent(100)
        assert finder.find_gap(AT.format(minute, 0)) == ""
        watches[minute % 2].be_silent(0)
    assert finder.pending == []


def test_a_silence_begins_with_the_last_message_and_ends_when_its_changes_have_arrived(
    finder: GapFinder, watches: list[Watch]
) -> None:
    watches[1].be_silent(120)
    assert finder.find_gap(AT.format(2, 0)) == ""
    for minute in (4, 5, 6):
        watches[1].be_silent(minute * 60)
        assert finder.find_gap(AT.format(minute, 0)) == AT.format(0, 0)
        assert finder.pending == []
    watches[1].be_silent(0)
    for second in (0, 30):
        assert finder.find_gap(AT.format(7, second)) == AT.format(0, 0)
        assert finder.pending == [gap(AT.format(0, 0), AT.format(7, 0))]
    finder.find_gap(AT.format(8, 0))
    assert finder.find_gap(AT.format(8, 1)) == ""
    assert len(finder.pending) == 1


def test_the_silence_of_a_kind_that_uses_nothing_is_no_gap(finder: GapFinder, watches: list[Watch]) -> None:
    for minute in range(1, 10):
        watches[2].be_silent(minute * 60)
        assert finder.find_gap(AT.format(minute, 0)) == ""
    assert finder.pending == []


def test_a_new_reporter_has_a_gap_since_the_last_status(watches: list[Watch]) -> None:
    finder = GapFinder("eu-1", watches)
    finder.resume(AT.format(0, 0))
    assert [finder.find_gap(AT.format(30, second)) for second in (0, 1)] == [AT.format(0, 0), ""]
    assert finder.pending == [gap(AT.format(0, 0), AT.format(30, 0))]


def test_a_short_time_between_two_reporters_leaves_ends_uncertain_but_has_no_line(watches: list[Watch]) -> None:
    finder = GapFinder("eu-1", watches)
    finder.resume(AT.format(0, 0))
    start = finder.find_gap(AT.format(2, 6))
    assert start == AT.format(0, 0)
    finder.keep_open(start)
    assert [finder.find_gap(AT.format(2, second)) for second in (7, 8)] == [start, ""]
    assert finder.pending == []


def test_a_reporter_that_observed_the_cluster_has_no_gap_when_it_reads_the_branch_again(finder: GapFinder) -> None:
    for minute in range(1, 31):
        assert finder.find_gap(AT.format(minute, 0)) == ""
    finder.resume(AT.format(0, 0))
    assert finder.find_gap(AT.format(31, 0)) == ""
    assert finder.pending == []


def test_a_clock_that_is_set_back_hides_no_later_gap(finder: GapFinder) -> None:
    finder.resume(AT.format(50, 0))
    assert finder.find_gap(AT.format(10, 0)) == AT.format(10, 0)
    assert finder.find_gap(AT.format(12, 0)) == ""
    assert finder.find_gap(AT.format(20, 0)) == AT.format(12, 0)


def test_a_gap_stays_open_for_the_next_try_and_is_listed_once(finder: GapFinder) -> None:
    start = finder.find_gap(AT.format(10, 0))
    finder.keep_open(start)
    assert [finder.find_gap(AT.format(10, second)) for second in (1, 2)] == [start, ""]
    assert len(finder.pending) == 1


def test_the_gap_of_another_leader_is_not_a_gap_of_this_process(finder: GapFinder) -> None:
    finder.forget()
    finder.resume(AT.format(30, 0))
    assert [finder.find_gap(AT.format(31, second)) for second in (0, 1)] == [AT.format(30, 0), ""]
    assert finder.pending == []
