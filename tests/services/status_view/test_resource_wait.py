"""A wait ends when the goal is reached, when it can't be reached without a change, or when the time is up."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.conftest import edit
from tests.support.published import Place, git
from tests.support.running_tenant import WEBUI, now, running
from tests.support.simulated_wait import Event, report_later, simulate_pauses

from allotment.adapters.git.remote import Remote
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.cli.wait_progress import TerminalProgress
from allotment.observed.status import Instance, Storage, TenantStatus
from allotment.problems import OperationRefused
from allotment.services.status_view.publish_check import PublishCheck
from allotment.services.status_view.resource_wait import ResourceWait, WaitTarget

REPORTS = "to report it, run `allot run --report eu-1`, or `allot report --cluster eu-1` in the cluster"
UNKNOWN = "time is up, and it is unknown whether it is {} (eu-1: no reporter has reported it yet)"
MODELS = "tenants/solo-ada/storages/models.yaml"


class Progress(TerminalProgress):
    """Keeps the lines of a wait."""

    def __init__(self) -> None:
        super().__init__("text")
        self.lines: list[str] = []

    def print_line(self, text: str) -> None:
        self.lines.append(text)


class Result(NamedTuple):
    """The outcome of a wait, its lines, and why the goal was not reached."""

    outcome: str
    lines: list[str]
    reason: str

    @property
    def short_lines(self) -> list[str]:
        """The lines without the published version."""
        return [line.partition(": the published")[0] for line in self.lines]


Wait = Callable[..., Result]


@pytest.fixture
def wait(published: Place, monkeypatch: pytest.MonkeyPatch) -> Wait:
    """Return a function that waits for a resource of solo-ada, with an event in each pause."""

    def run(
        name: str, goal: str = "", *, seconds: int = 600, cluster: str | None = None, meanwhile: tuple[Event, ...] = ()
    ) -> Result:
        events = simulate_pauses(monkeypatch)
        events += meanwhile
        progress, target = Progress(), WaitTarget("solo-ada", name, cluster, goal)
        check = PublishCheck(lambda source: datetime.datetime.now(datetime.UTC).date())
        waiting = ResourceWait(DeclarationsClone(published.root), check, target, progress)
        outcome = waiting.wait(seconds)
        assert not events or outcome != "Reached"
        return Result(outcome, progress.lines, waiting.explain_outcome(outcome))

    return run


@pytest.mark.parametrize("goal", ["Starting", "Ready"])
def test_until_it_is_starting(goal: str, wait: Wait, published: Place) -> None:
    steps = (
        report_later(published, "Init"),
        report_later(published, "Ready", "ProbePending", "its probe isn't answered yet"),
    )
    result = wait("webui", goal, meanwhile=steps)
    assert (result.outcome, result.reason) == ("Reached", "")
    assert result.lines[-1].endswith("instance solo-ada/webui in eu-1: Starting: its probe isn't answered yet")


def test_wait_follows_a_change_from_merge_to_the_goal(wait: Wait, published: Place) -> None:
    report_later(published, "Running")()

    def merge() -> None:
        edit(published.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
        published.merge()

    assert wait("webui", "Stopped").outcome == "Failed", "it is declared to run"
    merge()
    steps = (published.publish, report_later(published, "Stopped", "StoppedAsDeclared"))
    result = wait("webui", "Stopped", meanwhile=steps)
    states = [line.partition(": ")[2][:50] for line in result.lines]
    assert (result.outcome, states) == (
        "Reached",
        [
            "Running: changed since: merged, not published yet:",
            "Running: changed since: published, Argo CD hasn't ",
            "Stopped: StoppedAsDeclared",
        ],
    )


@pytest.mark.parametrize(
    ("state", "goal", "way_out"),
    [
        ("", "Stopped", f"{WEBUI} declares it to run: write `state: Stopped` there and merge the change"),
        ("", "Gone", f"{WEBUI} declares it: remove this file and merge the change"),
        ("spec:\n  state: Stopped\n", "Running", f"{WEBUI} is declared not to run: state: Stopped"),
        ("spec:\n  state: Stopped\n", "Ready", f"{WEBUI} is declared not to run: state: Stopped"),
    ],
)
def test_wait_refuses_a_goal_that_contradicts_the_declarations(
    state: str, goal: str, way_out: str, wait: Wait, published: Place
) -> None:
    """Also where nothing reports its cluster."""
    if state:
        edit(published.root, WEBUI, "spec:\n", state)
        published.merge()
    result = wait("webui", goal, meanwhile=(lambda: pytest.fail("it waits"),))
    assert (result.outcome, result.reason) == (
        "Failed",
        f"solo-ada/webui isn't {goal}: it doesn't get there without a change; {way_out}",
    )


def test_a_suspended_tenants_instance_stops_though_its_file_declares_it_to_run(wait: Wait, published: Place) -> None:
    edit(published.root, "tenants/solo-ada/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n")
    published.merge()
    steps = (published.publish, report_later(published, "Stopped", "TenantSuspended"))
    assert wait("webui", "Stopped", meanwhile=steps).outcome == "Reached"
    assert wait("webui", "Running").reason.endswith("is declared not to run: tenant is Suspended")


def test_a_status_that_names_it_twice_is_not_believed(wait: Wait, published: Place) -> None:
    blob = running(published, WEBUI).instances[0].observed_blob
    twice = (Instance("webui", blob, "Running", ""), Instance("webui", blob, "Failed", "CrashLoop"))
    published.report("eu-1", TenantStatus("solo-ada", "eu-1", (), twice), observed=now())
    result = wait("webui", seconds=10)
    assert result.outcome == "TimedOut"
    words = "tenants/solo-ada.yaml is rejected: it names instance 'webui' 2 times; no reporter writes such a status"
    assert f"(eu-1: {words})" in result.reason


def test_wait_ends_at_a_failure_and_suggests_a_remedy(wait: Wait, published: Place) -> None:
    failed = report_later(published, "Failed", "ImagePullFailed", "the image x can't be pulled\x1b[2J")
    result = wait("webui", meanwhile=(report_later(published, "Init"), failed))
    assert result.outcome == "Failed"
    assert result.lines[-1] == "(10s) instance solo-ada/webui in eu-1: Failed: the image x can't be pulled\\x1b[2J"
    assert (
        result.reason
        == "solo-ada/webui isn't Running: it doesn't get there without a change; correct the image's name and digest"
    )


def test_its_tenant_is_kept(wait: Wait, published: Place) -> None:
    edit(published.root, WEBUI, "l4-quarter", "l4-quater")
    published.merge()
    result = wait("webui", meanwhile=(published.publish,))
    assert (result.outcome, result.reason) == (
        "Failed", "solo-ada/webui isn't Running: it doesn't get there without a change; run `allot validate`, and correct the declarations"
    )  # fmt: skip
    assert "Kept: the previous version is still published: its tenant is retained: Invalid: " in result.lines[-1]


def test_time_is_up_where_nothing_but_waiting_helps(wait: Wait, published: Place) -> None:
    report_later(published, "Init", "Starting", "its image is pulled")()
    result = wait("webui", seconds=90)
    assert result.lines == [
        "(0s) instance solo-ada/webui in eu-1: Init: its image is pulled; next: its container starts"
    ]
    assert (result.outcome, result.reason) == (
        "TimedOut",
        "solo-ada/webui isn't Running: time is up; `allot status solo-ada/webui` shows details. To continue waiting, run this command again with a longer --timeout",
    )


def test_a_remote_is_asked_for_its_refs_alone_while_nothing_moves(
    wait: Wait, published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_later(published, "Init")()
    fetched: list[tuple[str, ...]] = []
    fetch = Remote.fetch
    monkeypatch.setattr(Remote, "fetch", lambda self, *refs, **more: fetched.append(refs) or fetch(self, *refs, **more))
    assert wait("webui", seconds=10).outcome == "TimedOut"
    few = len(fetched)
    fetched.clear()
    assert wait("webui", seconds=600).outcome == "TimedOut"
    assert len(fetched) == few


def test_a_remote_that_is_away_for_a_while(wait: Wait, published: Place) -> None:
    away = published.remote.with_name("away.git")
    steps = (
        lambda: None,
        lambda: published.remote.rename(away),
        lambda: (away.rename(published.remote), report_later(published, "Running")()),
    )
    result = wait("webui", meanwhile=steps)
    assert result.outcome == "Reached"
    assert "'origin' doesn't answer: " in "".join(result.lines)
    assert result.lines[-1].endswith("instance solo-ada/webui in eu-1: Running")


def test_a_remote_that_goes_away_between_two_questions(
    wait: Wait, published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_later(published, "Init")()
    fetch, answers = Remote.fetch, [True, True, True, False]

    def fetched(self: Remote, *refs: str, **more: bool) -> dict[str, str]:
        if answers and not answers.pop(0):
            raise OperationRefused("'origin' doesn't answer: it hangs up")
        return fetch(self, *refs, **more)

    monkeypatch.setattr(Remote, "fetch", fetched)
    result = wait("webui", meanwhile=(lambda: None, report_later(published, "Running")))
    assert (result.outcome, result.short_lines) == (
        "Reached",
        [
            "(0s) instance solo-ada/webui in eu-1: Init; next: its container starts",
            "(5s) 'origin' doesn't answer: it hangs up: trying again",
            "(10s) instance solo-ada/webui in eu-1: Running",
        ],
    )


def test_until_a_storage_is_prepared(wait: Wait, published: Place) -> None:
    blob = running(published, MODELS).storages[0].observed_blob

    def report(state: str) -> Callable[[], object]:
        storage = Storage("models", blob, state, "", f"it is {state}" if state != "Ready" else "")
        return lambda: published.report("eu-1", TenantStatus("solo-ada", "eu-1", (), (), (storage,)), observed=now())

    late = wait("models", seconds=1)
    assert late.reason == f"solo-ada/models: {UNKNOWN.format('Ready')}; {REPORTS}"
    result = wait("models", "Prepared", meanwhile=(report("Preparing"), report("Ready")))
    assert (result.outcome, result.lines[1:]) == (
        "Reached",
        [
            "(5s) storage solo-ada/models in eu-1: Preparing: it is Preparing; next: its preparation succeeds",
            "(10s) storage solo-ada/models in eu-1: Ready",
        ],
    )


def test_until_it_is_gone(wait: Wait, published: Place) -> None:
    report_later(published, "Running")()
    (published.root / WEBUI).unlink()
    published.merge()
    steps = (
        published.publish,
        lambda: published.report("eu-1", TenantStatus("solo-ada", "eu-1"), observed=now()),
    )
    result = wait("webui", "Gone", meanwhile=steps)
    assert result.outcome == "Reached"
    assert [line.partition(": ")[2].partition(": the published")[0] for line in result.lines] == [
        "Removing: removed: merged, not published yet",
        "Running: removed: published, being removed; next: Argo CD removes it",
        "it is neither declared nor reported by a cluster; known: models, styles",
    ]


def test_wait_for_gone_ends_only_after_publish_removes_the_instance(wait: Wait, published: Place) -> None:
    (published.root / WEBUI).unlink()
    published.merge()
    result = wait("webui", "Gone", seconds=60, meanwhile=(published.publish,))
    assert (result.outcome, result.short_lines) == (
        "Reached",
        [
            "(0s) instance solo-ada/webui in eu-1: Removing: not published yet",
            "(5s) solo-ada/webui: it is neither declared nor reported by a cluster; known: models, styles",
        ],
    )


def test_a_silent_cluster_is_not_believed(wait: Wait, published: Place) -> None:
    published.report("eu-1", running(published, WEBUI))
    result = wait("webui", seconds=20, meanwhile=(lambda: None, report_later(published, "Running")))
    assert (result.outcome, result.short_lines) == (
        "Reached",
        [
            "(0s) instance solo-ada/webui in eu-1: Running: its cluster has been silent since; next: eu-1 is reported again",
            "(10s) instance solo-ada/webui in eu-1: Running",
        ],
    )
    assert git(published.root, "status", "--short") == ""


@pytest.mark.parametrize(
    ("name", "goal", "cluster", "message"),
    [
        ("webiu", "", None, "solo-ada has no resource named 'webiu': no such name is declared, published or reported; did you mean 'webui'?"),
        ("models", "Running", None, "solo-ada/models is a storage, which can't become Running: wait for Ready, Prepared, Gone"),
        ("models", "Starting", None, "solo-ada/models is a storage, which can't become Starting: wait for Ready, Prepared, Gone"),
        ("webui", "Prepared", None, "solo-ada/webui is an instance, which can't become Prepared: wait for Running, Ready, Starting, Stopped, Gone"),
        ("webui", "", "eu1", "no cluster is named 'eu1'; did you mean 'eu-1'?"),
    ],
)  # fmt: skip
def test_wait_refuses_unknown_names_and_goals_of_another_kind(
    name: str, goal: str, cluster: str | None, message: str, wait: Wait
) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}$"):
        wait(name, goal, cluster=cluster)
