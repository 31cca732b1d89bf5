"""The operator's guide knows every condition, every reason and every event that somebody must look at."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.conftest import PROJECT

import allotment
from allotment import conditions
from allotment.observed.retention import WAYS_OUT, RetentionReason
from allotment.reports.reason_pages import CONDITIONS, GOOD_REASONS, REASONS
from allotment.reports.state_pages import STATE_PAGES

PAGE = (PROJECT / "docs/operate/operator.md").read_text(encoding="utf-8")
METRICS = (PROJECT / "docs/operate/metrics.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[([^\]]{1,80})\]\([^)]{1,80}\)")
CODE = re.compile(r"`([^`]+)`")
COUNTED = re.compile(r"(?:Failure\(|^ +\(.*, )\"([a-z-]+)\"(?:\),$|, )", re.MULTILINE)
TOLD = set(CODE.findall(PAGE))
STATUS = (PROJECT / "docs/operate/status.md").read_text(encoding="utf-8")
STATES = {*conditions.STATES, conditions.STORAGE_READY, conditions.JOB_RUNNING, conditions.SUCCEEDED}
NAMES = {name: value for name, value in vars(conditions).items() if isinstance(value, str) and name.isupper()}


def words_of(*levels: str) -> set[str]:
    """Return the events that the program logs at these levels, as its code says them."""
    events = set()
    for path in Path(allotment.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = (
                node.elts
                if isinstance(node, ast.Tuple)
                else [node.func, *node.args]
                if isinstance(node, ast.Call)
                else []
            )
            if len(called) > 1 and isinstance(called[0], ast.Attribute) and called[0].attr in levels:
                event = called[1]
                if isinstance(event, ast.Constant) and isinstance(event.value, str):
                    events.add(event.value)
    return events


def test_every_condition_and_reason_is_explained() -> None:
    assert sorted(set(NAMES.values()) - STATES - TOLD) == []


def test_explain_says_the_same() -> None:
    """A reader of a terminal and one of the guide are told the same."""
    rows = [line.strip("| ").split(" | ") for line in LINK.sub(r"\1", PAGE).splitlines() if line.startswith("| `")]
    documented = {name: (cells[1], cells[2]) for cells in rows if len(cells) == 3 for name in CODE.findall(cells[0])}
    for name, page in {**CONDITIONS, **REASONS}.items():
        assert documented[name] == tuple(page), name
    assert {*CONDITIONS, *REASONS, *GOOD_REASONS} == set(NAMES.values()) - (STATES - {conditions.STOPPED})


def test_every_state_is_explained() -> None:
    assert [state for state in conditions.STATES if f"`{state}`" not in STATUS] == []
    assert set(STATE_PAGES) == {*conditions.STATES, conditions.STARTING}


@pytest.mark.process
def test_every_event_to_look_at_is_explained() -> None:
    events = words_of("warning", "error", "_log_pull_failure")
    assert {"tenant kept", "foreign commit replaced", "no verdict", "a process ended"} <= events
    assert sorted(events - TOLD) == []
    assert {"nothing published", "nothing reported", "no comments", "portal not built", "cordons not applied"} <= TOLD


def test_every_reason_of_a_retention_is_explained() -> None:
    page = (PROJECT / "docs/operate/publishing.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    documented = {CODE.findall(cells[0])[0]: cells[2] for cells in rows if len(cells) == 3}
    assert documented == {str(reason): way_out for reason, way_out in WAYS_OUT.items()}
    assert list(documented) == [str(reason) for reason in RetentionReason]


@pytest.mark.process
def test_the_guide_names_only_existing_conditions_reasons_and_events() -> None:
    events = words_of("warning", "error", "_log_pull_failure") | {
        "nothing published",
        "nothing reported",
        "no comments",
        "portal not built",
        "cordons not applied",
    }
    events |= {"stopped, still running", "removed, not gone"}
    rows = set(re.findall(r"^\| `([^|]+)` \|", PAGE, re.MULTILINE))
    first = {name for row in rows for name in row.split("`, `")}
    assert sorted(first - set(NAMES.values()) - events) == []


def test_every_reason_of_an_error_is_explained() -> None:
    """Reasons that `allotment_errors_total` and its like count."""
    texts = [path.read_text(encoding="utf-8") for path in (Path(allotment.__path__[0]) / "services").rglob("*.py")]
    counted = {reason for text in texts for reason in COUNTED.findall(text)}
    assert {
        "platform-invalid",
        "braked",
        "rewound",
        "unsigned",
        "malformed",
        "unreachable",
        "refused",
        "bug",
    } <= counted
    assert sorted(counted - TOLD - set(CODE.findall(METRICS))) == []
