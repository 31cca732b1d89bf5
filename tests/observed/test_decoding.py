"""A time of a live object that is no time is unknown: it ends no report, and no reader refuses the status."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import live
from tests.support.instances import CRASHED, RUNS, UNSCHEDULABLE
from tests.support.orphans import ARGOCD, look, published

from allotment.observed.api_objects.base import normalize_time
from allotment.observed.status import dump_status, parse_tenant_status

Object = dict[str, Any]
KEYS = frozenset(
    {
        "creationTimestamp",
        "lastTransitionTime",
        "startedAt",
        "finishedAt",
        "startTime",
        "completionTime",
        "creationTime",
    }
)
WAITS = live.pod(
    number=2, status={"phase": "Pending", "conditions": [{**UNSCHEDULABLE, "lastTransitionTime": live.AT.format(1)}]}
)
EVICTED = live.pod(number=3, node="n1", container=live.ended(137), status={"phase": "Failed", "reason": "Evicted"})
AGAIN = live.pod(number=4, node="n1", container=live.started(9, restarts=1, ended=live.run(1, 2)))
OBJECTS = (
    *RUNS,
    *CRASHED[2:],
    WAITS,
    EVICTED,
    AGAIN,
    live.route(),
    live.claim(),
    live.job(condition="Failed"),
    live.job_pod(container=live.ended(3)),
    live.bucket(),
    live.snapshot(readyToUse=True, creationTime=live.AT.format(3), restoreSize="20Gi"),
    *ARGOCD,
)
TIMES = st.one_of(
    st.text(max_size=25),
    st.sampled_from(
        [
            "",
            "2026-11-21",
            "2026-11-21T10:00:00",
            "2026-11-21T10:00:00+05:00",
            "2026-W47-6T10:00:00Z",
            "20261121T100000.000Z",
            "2026-13-21T10:00:00Z",
            "2026-11-21T10:00:60Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "zzzz",
        ]
    ),
)


def places(value: Any) -> Iterator[tuple[Object, str]]:
    """Yield each mapping that holds a time, with the time's key."""
    if isinstance(value, dict):
        yield from ((value, key) for key in value if key in KEYS)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from places(inner)


@given(st.data())
def test_no_text_in_place_of_a_time_ends_a_report_or_makes_it_unreadable(data: st.DataObject) -> None:
    objects = copy.deepcopy(OBJECTS)
    for place, key in places(list(objects)):
        if data.draw(st.booleans()):
            place[key] = data.draw(TIMES)
    before = look(*objects)
    for published_objects in (None, published()):
        status = look(*objects, before=before, seconds=150, published_objects=published_objects)
        assert parse_tenant_status(dump_status(status)) == status


@pytest.mark.parametrize("number", range(len(OBJECTS)))
def test_one_time_that_is_none_ends_no_report(number: int) -> None:
    for at in range(len(list(places(OBJECTS[number])))):
        for wrong in ("", "never", "2026-11-21T10:00:00", "9999-12-31T23:59:59Z"):
            objects = copy.deepcopy(OBJECTS)
            place, key = list(places(objects[number]))[at]
            place[key] = wrong
            status = look(*objects, before=look(*OBJECTS), seconds=60, published_objects=published())
            assert parse_tenant_status(dump_status(status)) == status


def test_a_written_status_without_times_ends_no_report() -> None:
    written = dump_status(look(*OBJECTS, published_objects=published())).decode()
    before = parse_tenant_status(
        "\n".join(line for line in written.split("\n") if "lastTransitionTime" not in line).encode()
    )
    assert before.instances[0].conditions[-1].last_transition_time == ""
    status = look(*OBJECTS, before=before, seconds=150, published_objects=published())
    assert parse_tenant_status(dump_status(status)) == status


@given(TIMES)
def test_a_time_is_kept_as_it_is_or_not_at_all(text: str) -> None:
    assert normalize_time(text) in (text, "")
    assert normalize_time("2026-11-21T10:00:00Z") == "2026-11-21T10:00:00Z"
    assert normalize_time(None) == ""
