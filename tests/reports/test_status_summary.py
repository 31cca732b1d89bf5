"""A status begins with its counts, and says a reason that several rows share once."""

from __future__ import annotations

import datetime
import io

import pytest
from rich.console import Console, RenderableType

from allotment.observed.resource_status import ResourceStatus
from allotment.observed.rollout import Resource, ResourceRef, RolloutStage
from allotment.observed.status import Instance, Storage
from allotment.reports.links import Consoles
from allotment.reports.status_summary import count_states, shared_reasons
from allotment.reports.status_tables import render_details, render_overview

FULL = "no unit of l4-whole is free on eu-1"
WAY_OUT = "stop another instance"
MOMENT = "2026-11-21T08:00:00Z"
NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)


def joined(kind: str, name: str, state: str, why: str = "", way_out: str = "") -> ResourceStatus:
    seen: Resource = (Instance if kind == "instance" else Storage)(name, "b1", state, "", why)
    stage = RolloutStage("going", "waiting", why, remedy=way_out)
    return ResourceStatus(ResourceRef(kind, "kite", name, "eu-1", "b1"), stage, seen, None, "path")


CONSOLES = Consoles("", {})
ROWS = (
    joined("instance", "a", "Running"),
    joined("instance", "b", "Running"),
    joined("instance", "c", "Waiting", FULL, WAY_OUT),
    joined("instance", "d", "Waiting", FULL, WAY_OUT),
    joined("instance", "e", "Waiting", FULL),
    joined("instance", "f", "Ready", "it hasn't answered its probe"),
    joined("storage", "g", "Ready"),
)


def test_the_counts_of_each_kind_by_state() -> None:
    assert count_states(ROWS) == "6 instances: 3 Waiting, 2 Running, 1 Starting; 1 storage: 1 Ready"


def test_rows_share_a_reason_that_has_the_same_way_out() -> None:
    (reason,) = shared_reasons(ROWS).values()
    assert reason == ("(1)", f"{FULL}; {WAY_OUT}", ("kite/c", "kite/d"))


def test_a_shared_reason_is_printed_once_whatever_the_number_of_its_rows() -> None:
    rows = [*ROWS, *(joined("instance", f"instance-{number}", "Waiting", FULL, WAY_OUT) for number in range(400))]
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(render_overview((), rows, NOW), soft_wrap=True)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("406 instances: 403 Waiting, ")
    cells = {line.split()[0]: line for line in lines if line.startswith("kite/")}
    assert cells["kite/d"].split()[-1] == "(1)"
    assert cells["kite/e"].endswith(FULL), "it has no way out"
    assert cells["kite/f"].endswith("it hasn't answered its probe")
    labels = [row.label for row in rows if row.stage.remedy]
    assert lines[-1] == f"(1):   {FULL}; {WAY_OUT}; concerns {', '.join(labels[:5])} and {len(labels) - 5} more"
    assert sum(FULL in line for line in lines) == 2


@pytest.mark.parametrize(
    ("kind", "state", "reason"),
    [
        ("instance", "Running", "ProbesAnswered"),
        ("instance", "Stopped", "StoppedAsDeclared"),
        ("storage", "Ready", "VolumeBound"),
        ("storage", "Ready", "AlreadyPrepared"),
    ],
)
def test_a_row_that_is_as_declared_shows_no_reason(kind: str, state: str, reason: str) -> None:
    rows = [as_declared(kind, name, state, reason) for name in ("a", "b")]
    assert shared_reasons(rows) == {}
    for renderable in (render_overview((), rows, NOW), render_details(rows[0], CONSOLES, NOW)):
        text = printed(renderable)
        assert state in text
        assert reason not in text


def test_a_row_that_is_as_declared_shows_why_its_tenant_keeps_it_stopped() -> None:
    text = printed(render_details(as_declared("instance", "a", "Stopped", "TenantSuspended"), CONSOLES, NOW))
    assert "Why:            TenantSuspended\n" in text


def test_a_row_says_that_its_data_is_marked_for_deletion() -> None:
    row = as_declared("storage", "a", "Ready", "VolumeBound")
    marked = row._replace(is_marked_for_deletion=True)
    for render in (lambda each: render_overview((), [each], NOW), lambda each: render_details(each, CONSOLES, NOW)):
        texts = [printed(render(each)) for each in (row, marked)]
        assert ["Ready, marked for deletion" in text for text in texts] == [False, True]


def as_declared(kind: str, name: str, state: str, reason: str) -> ResourceStatus:
    seen: Resource = (Instance if kind == "instance" else Storage)(name, "b1", state, reason)
    return ResourceStatus(
        ResourceRef(kind, "kite", name, "eu-1", "b1"), RolloutStage("done", "", ""), seen, None, "path"
    )


def printed(renderable: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(renderable, soft_wrap=True)
    return out.getvalue()
