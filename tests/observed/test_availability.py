"""The availability of an instance is measured from its changes of state."""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from allotment.observed.availability import DayAvailability, StateStep, measure_availability

UTC = datetime.UTC
DAY = 86_400
FIRST = datetime.date(1970, 1, 2)
STATES = st.sampled_from(["", "Init", "Running", "Failed", "Stopped", "Waiting"])


def measure(steps: list[StateStep], state: str = "", days: int = 2) -> list[tuple[int, int]]:
    starts = [DAY * (day + 1) for day in range(days)]
    result = measure_availability(steps, state, starts, DAY * (days + 1), UTC)
    assert [each.day for each in result] == [FIRST + datetime.timedelta(days=day) for day in range(days)]
    return [(each.declared, each.running) for each in result]


def test_a_failure_counts_until_it_runs_again() -> None:
    steps = [
        StateStep(DAY + 3600, "Running", "Failed"),
        StateStep(DAY + 7200, "Failed", "Running"),
    ]
    assert measure(steps) == [(DAY, DAY - 3600), (DAY, DAY)]


def test_a_stopped_instance_is_not_declared_to_run() -> None:
    assert measure([StateStep(2 * DAY, "Running", "Stopped")]) == [(DAY, DAY), (0, 0)]


def test_the_time_before_the_first_report_does_not_count() -> None:
    assert measure([StateStep(DAY + 43_200, "", "Running")]) == [(43_200, 43_200), (DAY, DAY)]


def test_a_change_before_the_first_day_sets_the_state() -> None:
    assert measure([StateStep(10, "", "Init"), StateStep(20, "Init", "Running")]) == [(DAY, DAY), (DAY, DAY)]


def test_without_a_change_the_state_stays() -> None:
    assert measure([], "Waiting") == [(DAY, 0), (DAY, 0)]


@given(st.lists(st.tuples(st.integers(0, 5 * DAY), STATES), max_size=20))
def test_a_day_has_its_seconds_at_most(changes: list[tuple[int, str]]) -> None:
    times = sorted(changes)
    sources = ["", *(state for _, state in times)]
    steps = [StateStep(time, source, target) for (time, target), source in zip(times, sources, strict=False)]
    for declared, running in measure(steps, days=3):
        assert 0 <= running <= declared <= DAY


def test_the_result_names_its_fields() -> None:
    assert DayAvailability(FIRST, 2, 1).running == 1


def test_changes_of_the_same_second_keep_their_order() -> None:
    steps = [StateStep(DAY, "Running", "Failed"), StateStep(DAY, "Failed", "Running")]
    assert measure(steps) == [(DAY, DAY), (DAY, DAY)]
