"""Starts that found no free unit are measured until a node had room for them; what took a placeholder's place isn't one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support import live
from tests.support.cold_starts import PENDING, build_started_pod
from tests.support.instances import UNSCHEDULABLE, look, started

from allotment.diff.cold_starts import ColdStartTime
from allotment.observed.cold_starts import find_cold_starts, select_newest, summarize_cold_starts
from allotment.observed.status import ColdStart, TenantStatus

HANDED = started(live.pod(status={"conditions": [UNSCHEDULABLE], "nominatedNodeName": "n1"}))
HOUR = "2026-11-21T{:02d}:00:00Z"


def made_at(second: int) -> tuple[dict[str, Any], ...]:
    """Return an instance whose pod was made then, and finds no unit."""
    return started(live.pod(status={"conditions": [UNSCHEDULABLE]}, creationTimestamp=live.AT.format(second)))


def through(*looks: tuple[int, tuple[dict[str, Any], ...]]) -> list[ColdStart]:
    """Return the cold starts of looks at these seconds."""
    starts, before = list[ColdStart](), None
    for at, objects in looks:
        now: TenantStatus = look(*objects, before=before, now=live.AT.format(at))
        starts += find_cold_starts(before, now)
        before = now
    return starts


def test_a_start_that_waited_for_a_node_is_measured_by_when_its_pod_had_one() -> None:
    starts = through((1, PENDING), (12, PENDING), (50, PENDING), (59, build_started_pod(52)))
    assert starts == [ColdStart("l4-quarter", "solo-ada/webui", live.AT.format(52), 52)]


def test_a_cold_start_counts_once_and_excludes_the_pull_of_the_image() -> None:
    running = started(live.pod(node="n1", scheduled=40, container=live.started(57, ready=True), ready=58))
    assert (
        len(
            through(
                (1, PENDING),
                (12, PENDING),
                (45, build_started_pod(40)),
                (50, build_started_pod(40)),
                (59, running),
                (59, running),
            )
        )
        == 1
    )
    (seen_late,) = through((1, PENDING), (12, PENDING), (59, running))
    assert seen_late.seconds == 40, "the image's time isn't the node's"


def test_a_start_in_the_place_of_a_placeholder_counts_as_no_cold_start() -> None:
    assert through((1, PENDING), (4, build_started_pod(3))) == []
    assert through((1, HANDED), (4, HANDED), (5, build_started_pod(5))) == []


def test_a_cold_start_begins_with_the_pod_and_not_with_the_wait_for_a_unit() -> None:
    waits = (live.deployment(replicas=0, units="0", waits_reason="NoFreeUnit", waits_for="l4-quarter"),)
    assert look(*waits).instances[0].reason == "NoFreeUnit"
    (start,) = through((1, waits), (40, made_at(29)), (42, build_started_pod(41)))
    assert start.seconds == 12, "since its pod was made, however late that was seen"
    assert through((1, waits), (40, made_at(39)), (42, build_started_pod(41))) == []
    assert through((1, PENDING), (12, PENDING), (20, waits), (50, build_started_pod(49))) == [], (
        "given back, and started again"
    )


def test_an_instance_whose_node_was_taken_away_waits_for_another() -> None:
    running = started(live.pod(node="n1", container=live.started(3, ready=True), ready=4))
    (start,) = through((5, running), (20, made_at(19)), (32, made_at(19)), (35, build_started_pod(33)))
    assert start.seconds == 14


def test_the_median_and_the_longest_of_the_last_twenty() -> None:
    old = [ColdStart("h100", "a/b", HOUR.format(0), 9_000)]
    some = [ColdStart("h100", f"a/i{number}", HOUR.format(1), 300 + number) for number in range(20)]
    times = summarize_cold_starts([*some, *old, ColdStart("l40s", "a/b", HOUR.format(2), 45)])
    assert times == {"h100": ColdStartTime(20, 309, 319), "l40s": ColdStartTime(1, 45, 45)}
    assert summarize_cold_starts([]) == {}


@given(
    st.lists(
        st.builds(ColdStart, st.sampled_from("ab"), st.sampled_from("xyz"), st.text(max_size=3), st.just(5)),
        max_size=99,
    )
)
def test_select_newest_is_idempotent_and_returns_at_most_40_starts(starts: list[ColdStart]) -> None:
    newest_starts = select_newest(starts)
    assert select_newest((*newest_starts, *starts)) == select_newest(newest_starts) == newest_starts
    assert len(newest_starts) <= 40
