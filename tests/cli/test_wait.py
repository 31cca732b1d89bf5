"""`allot wait` ends when it is so, when it can't be so by itself, or when time is up, and says how it gets on."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support.published import Place, git
from tests.support.running_tenant import WEBUI, now, running
from tests.support.terminal import ALLOT, run_in_terminal

from allotment.adapters.git.remote import Remote
from allotment.observed.status import Instance, Storage, TenantStatus
from allotment.problems import OperationRefused

NEVER = "the state of eu-1 is unknown: no reporter has reported it yet"
REPORTS = "to report it, run `allot run --report eu-1`, or `allot report --cluster eu-1` in the cluster"
UNKNOWN = "time is up, and it is unknown whether it is {} (eu-1: no reporter has reported it yet)"
MODELS = "tenants/solo-ada/storages/models.yaml"
_CLOCK = re.compile(r"^[0-9]{2}:[0-9]{2}:[0-9]{2}Z ", re.MULTILINE)
LATER = "; next: eu-1 is reported"

Wait = Callable[..., Result]


@pytest.fixture
def wait(published: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> Wait:
    """Return what waits while one thing after another happens, a look apart."""

    def run(what: str, *words: object, meanwhile: tuple[Callable[[], object], ...] = ()) -> Result:
        steps, clock = list(meanwhile), [0.0]

        def sleep(seconds: float) -> None:
            clock[0] += seconds
            if steps:
                steps.pop(0)()

        monkeypatch.setattr("allotment.cli.wait.time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
        result = allot("wait", what, "--repo", published.root, *words)
        assert not steps or result.code
        return Result(result.code, _CLOCK.sub("", result.out), _CLOCK.sub("", result.err))

    return run


def says(place: Place, state: str, reason: str = "", message: str = "") -> Callable[[], object]:
    """Return what lets the cluster say this of the instance."""
    blob = running(place, WEBUI).instances[0].observed_blob

    def report() -> None:
        instance = Instance("webui", blob, state, reason, message)
        place.report("eu-1", TenantStatus("solo-ada", "eu-1", (), (instance,)), observed=now())

    return report


def test_until_it_runs(wait: Wait, published: Place) -> None:
    steps = (
        says(published, "Init"),
        says(published, "Init"),
        says(published, "Ready", "ProbePending", "its probe isn't answered yet"),
        says(published, "Running"),
    )
    result = wait("solo-ada/webui", "--for", "running", meanwhile=steps)
    assert result == (
        0,
        f"(0s) instance solo-ada/webui in eu-1: Published: {NEVER}{LATER}\n"
        "(5s) instance solo-ada/webui in eu-1: Init; next: its container starts\n"
        "(15s) instance solo-ada/webui in eu-1: Starting: its probe isn't answered yet; next: it answers its probe\n"
        "(20s) instance solo-ada/webui in eu-1: Running\n",
        "",
    )
    assert wait("solo-ada/webui").code == 0, "at once, where it is so"


@pytest.mark.parametrize("goal", ["starting", "ready"])
def test_until_it_is_starting(goal: str, wait: Wait, published: Place) -> None:
    steps = (says(published, "Init"), says(published, "Ready", "ProbePending", "its probe isn't answered yet"))
    result = wait("solo-ada/webui", "--for", goal, meanwhile=steps)
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("instance solo-ada/webui in eu-1: Starting: its probe isn't answered yet\n")


def test_wait_follows_a_change_from_merge_to_the_goal(wait: Wait, published: Place) -> None:
    says(published, "Running")()

    def merge() -> None:
        edit(published.root, WEBUI, "spec:\n", "spec:\n  state: Stopped\n")
        published.merge()

    assert wait("solo-ada/webui", "--for", "Stopped").code == 1, "it is declared to run"
    merge()
    steps = (published.publish, says(published, "Stopped", "StoppedAsDeclared"))
    result = wait("solo-ada/webui", "--for", "Stopped", meanwhile=steps)
    states = [line.partition(": ")[2][:50] for line in result.out.splitlines()]
    assert (result.code, states) == (
        0,
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
    result = wait("solo-ada/webui", "--for", goal, meanwhile=(lambda: pytest.fail("it waits"),))
    assert (result.code, result.err) == (
        1,
        f"solo-ada/webui isn't {goal}: it doesn't get there without a change; {way_out}\n",
    )


def test_a_suspended_tenants_instance_stops_though_its_file_declares_it_to_run(wait: Wait, published: Place) -> None:
    edit(published.root, "tenants/solo-ada/tenant.yaml", "spec:\n", "spec:\n  lifecycle: Suspended\n")
    published.merge()
    steps = (published.publish, says(published, "Stopped", "TenantSuspended"))
    assert wait("solo-ada/webui", "--for", "Stopped", meanwhile=steps).code == 0
    assert wait("solo-ada/webui", "--for", "Running").err.endswith("is declared not to run: tenant is Suspended\n")


def test_a_status_that_names_it_twice_is_not_believed(wait: Wait, published: Place) -> None:
    blob = running(published, WEBUI).instances[0].observed_blob
    twice = (Instance("webui", blob, "Running", ""), Instance("webui", blob, "Failed", "CrashLoop"))
    published.report("eu-1", TenantStatus("solo-ada", "eu-1", (), twice), observed=now())
    result = wait("solo-ada/webui", "--timeout", "10s")
    assert result.code == 124
    words = "tenants/solo-ada.yaml is rejected: it names instance 'webui' 2 times; no reporter writes such a status"
    assert f"(eu-1: {words})" in result.err


def test_wait_ends_at_a_failure_and_suggests_a_remedy(wait: Wait, published: Place) -> None:
    failed = says(published, "Failed", "ImagePullFailed", "the image x can't be pulled\x1b[2J")
    result = wait("solo-ada/webui", meanwhile=(says(published, "Init"), failed))
    assert result.code == 1
    assert (
        result.out.splitlines()[-1]
        == "(10s) instance solo-ada/webui in eu-1: Failed: the image x can't be pulled\\x1b[2J"
    )
    assert (
        result.err
        == "solo-ada/webui isn't Running: it doesn't get there without a change; correct the image's name and digest\n"
    )


def test_its_tenant_is_kept(wait: Wait, published: Place) -> None:
    edit(published.root, WEBUI, "l4-quarter", "l4-quater")
    published.merge()
    result = wait("solo-ada/webui", meanwhile=(published.publish,))
    assert (result.code, result.err) == (
        1, "solo-ada/webui isn't Running: it doesn't get there without a change; run `allot validate`, and correct the declarations\n"
    )  # fmt: skip
    assert (
        "Kept: the previous version is still published: its tenant is retained: Invalid: "
        in result.out.splitlines()[-1]
    )


def test_time_is_up(wait: Wait) -> None:
    result = wait("solo-ada/webui", "--timeout", "1m30s")
    assert result == (
        124,
        f"(0s) instance solo-ada/webui in eu-1: Published: {NEVER}{LATER}\n",
        f"solo-ada/webui: {UNKNOWN.format('Running')}; {REPORTS}\n",
    )


def test_time_is_up_where_nothing_but_waiting_helps(wait: Wait, published: Place) -> None:
    says(published, "Init", "Starting", "its image is pulled")()
    result = wait("solo-ada/webui", "--timeout", "1m30s")
    assert result.out == "(0s) instance solo-ada/webui in eu-1: Init: its image is pulled; next: its container starts\n"
    assert (result.code, result.err) == (
        124,
        "solo-ada/webui isn't Running: time is up; `allot status solo-ada/webui` shows details. To continue waiting, run this command again with a longer --timeout\n",
    )


@pytest.mark.parametrize("columns", [30, 80])
def test_a_terminal_has_a_line_that_counts_the_seconds(columns: int, published: Place) -> None:
    says(published, "Init")()
    words = [*ALLOT, "wait", "solo-ada/webui", "--timeout", "3s", "--repo", str(published.root)]
    screen = run_in_terminal(words, published.root, columns)
    live = [line.rpartition("\r")[2] for line in screen.text.replace("\r", "\n\r").splitlines() if " of 3s, " in line]
    assert screen.status == 124
    assert len(live) >= 2, screen.text
    assert live[0][2:] == " of 3s, waiting for Running; next: its container starts"[: columns - 3]
    assert screen.raw.count("\r\x1b[K") == len(live) + 1, "it is cleared in the end"


def test_a_remote_is_asked_for_its_refs_alone_while_nothing_moves(
    wait: Wait, published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(published, "Init")()
    fetched: list[tuple[str, ...]] = []
    fetch = Remote.fetch
    monkeypatch.setattr(Remote, "fetch", lambda self, *refs, **more: fetched.append(refs) or fetch(self, *refs, **more))
    assert wait("solo-ada/webui", "--timeout", "10s").code == 124
    few = len(fetched)
    fetched.clear()
    assert wait("solo-ada/webui", "--timeout", "10m").code == 124
    assert len(fetched) == few


def test_a_remote_that_is_away_for_a_while(wait: Wait, published: Place) -> None:
    away = published.remote.with_name("away.git")
    steps = (
        lambda: None,
        lambda: published.remote.rename(away),
        lambda: (away.rename(published.remote), says(published, "Running")()),
    )
    result = wait("solo-ada/webui", meanwhile=steps)
    assert result.code == 0
    assert "'origin' doesn't answer: " in result.out
    assert result.out.endswith("instance solo-ada/webui in eu-1: Running\n")


def test_a_remote_that_goes_away_between_two_questions(
    wait: Wait, published: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(published, "Init")()
    fetch, answers = Remote.fetch, [True, True, True, False]

    def fetched(self: Remote, *refs: str, **more: bool) -> dict[str, str]:
        if answers and not answers.pop(0):
            raise OperationRefused("'origin' doesn't answer: it hangs up")
        return fetch(self, *refs, **more)

    monkeypatch.setattr(Remote, "fetch", fetched)
    result = wait("solo-ada/webui", meanwhile=(lambda: None, says(published, "Running")))
    assert (result.code, [line.partition(": the published")[0] for line in result.out.splitlines()]) == (
        0,
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

    late = wait("solo-ada/models", "--timeout", "1s")
    assert late.err == f"solo-ada/models: {UNKNOWN.format('Ready')}; {REPORTS}\n"
    result = wait("solo-ada/models", "--for", "Prepared", meanwhile=(report("Preparing"), report("Ready")))
    assert (result.code, result.out.splitlines()[1:]) == (
        0,
        [
            "(5s) storage solo-ada/models in eu-1: Preparing: it is Preparing; next: its preparation succeeds",
            "(10s) storage solo-ada/models in eu-1: Ready",
        ],
    )


def test_until_it_is_gone(wait: Wait, published: Place) -> None:
    says(published, "Running")()
    (published.root / WEBUI).unlink()
    published.merge()
    steps = (
        published.publish,
        lambda: published.report("eu-1", TenantStatus("solo-ada", "eu-1"), observed=now()),
    )
    result = wait("solo-ada/webui", "--for", "gone", meanwhile=steps)
    assert result.code == 0
    assert [line.partition(": ")[2].partition(": the published")[0] for line in result.out.splitlines()] == [
        "Removing: removed: merged, not published yet",
        "Running: removed: published, being removed; next: Argo CD removes it",
        "it is neither declared nor reported by a cluster; known: models, styles",
    ]


def test_wait_for_gone_ends_only_after_publish_removes_the_instance(wait: Wait, published: Place) -> None:
    (published.root / WEBUI).unlink()
    published.merge()
    result = wait("solo-ada/webui", "--for", "Gone", "--timeout", "1m", meanwhile=(published.publish,))
    assert (result.code, [line.partition(": the published")[0] for line in result.out.splitlines()]) == (
        0,
        [
            "(0s) instance solo-ada/webui in eu-1: Removing: not published yet",
            "(5s) solo-ada/webui: it is neither declared nor reported by a cluster; known: models, styles",
        ],
    )


def test_json(wait: Wait, published: Place) -> None:
    result = wait("solo-ada/webui", "-o", "json", meanwhile=(says(published, "Running"),))
    output = checked("wait", result.out)
    assert (result.code, output["outcome"], output["for"], output["seconds"]) == (0, "Reached", "Running", 5.0)
    assert output["things"] == [
        {"kind": "instance", "cluster": "eu-1", "state": "Running", "why": "", "wayOut": "", "url": None}
    ]
    assert result.err.splitlines()[-1] == "(5s) instance solo-ada/webui in eu-1: Running"
    quiet = wait("solo-ada/webui", "-o", "json", "-q")
    assert (quiet.code, quiet.err) == (0, "")
    late = wait("solo-ada/models", "--for", "ready", "--timeout", "5s", "-o", "json")
    assert (late.code, checked("wait", late.out)["outcome"]) == (124, "TimedOut")


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (("solo-ada",), "Error: solo-ada is not in the format TENANT/NAME: name an instance, storage or snapshot"),
        (("solo-ada/webiu",), "allot: solo-ada has no resource named 'webiu': no such name is declared, published or reported; did you mean 'webui'?"),
        (("solo-ada/models", "--for", "running"), "allot: solo-ada/models is a storage, which can't become Running: wait for Ready, Prepared, Gone"),
        (("solo-ada/models", "--for", "starting"), "allot: solo-ada/models is a storage, which can't become Starting: wait for Ready, Prepared, Gone"),
        (("solo-ada/webui", "--for", "Prepared"), "allot: solo-ada/webui is an instance, which can't become Prepared: wait for Running, Ready, Starting, Stopped, Gone"),
        (("solo-ada/webui", "--timeout", "10"), "Error: Invalid value for '--timeout': '10' is not a duration: write hours, minutes and seconds, such as 1h30m"),
        (("solo-ada/webui", "--cluster", "eu1"), "allot: no cluster is named 'eu1'; did you mean 'eu-1'?"),
    ],
)  # fmt: skip
def test_wait_refuses_unknown_names_and_invalid_goals(words: tuple[Any, ...], expected_error: str, wait: Wait) -> None:
    result = wait(*words)
    assert (result.code, result.out, result.err.splitlines()[-1]) == (2, "", expected_error)


def test_a_silent_cluster_is_not_believed(wait: Wait, published: Place) -> None:
    published.report("eu-1", running(published, WEBUI))
    result = wait("solo-ada/webui", "--timeout", "20s", meanwhile=(lambda: None, says(published, "Running")))
    assert (result.code, [line.partition(": the published")[0] for line in result.out.splitlines()]) == (
        0,
        [
            "(0s) instance solo-ada/webui in eu-1: Running: its cluster has been silent since; next: eu-1 is reported again",
            "(10s) instance solo-ada/webui in eu-1: Running",
        ],
    )
    assert git(published.root, "status", "--short") == ""
