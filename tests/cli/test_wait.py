"""`allot wait` prints how the state of a resource changes, and its exit status is the outcome."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.conftest import Allot, Result, checked
from tests.support.published import Place
from tests.support.simulated_wait import Event, report_later, simulate_pauses
from tests.support.terminal import ALLOT, run_in_terminal

NEVER = "the state of eu-1 is unknown: no reporter has reported it yet"
REPORTS = "to report it, run `allot run --report eu-1`, or `allot report --cluster eu-1` in the cluster"
_CLOCK = re.compile(r"^[0-9]{2}:[0-9]{2}:[0-9]{2}Z ", re.MULTILINE)
UNKNOWN = "time is up, and it is unknown whether it is Running (eu-1: no reporter has reported it yet)"
LATER = "; next: eu-1 is reported"

Wait = Callable[..., Result]


@pytest.fixture
def wait(published: Place, allot: Allot, monkeypatch: pytest.MonkeyPatch) -> Wait:
    """Return a function that runs `allot wait`, with an event in each pause."""

    def run(what: str, *words: object, meanwhile: tuple[Event, ...] = ()) -> Result:
        events = simulate_pauses(monkeypatch)
        events += meanwhile
        result = allot("wait", what, "--repo", published.root, *words)
        assert not events or result.code
        return Result(result.code, _CLOCK.sub("", result.out), _CLOCK.sub("", result.err))

    return run


def test_until_it_runs(wait: Wait, published: Place) -> None:
    steps = (
        report_later(published, "Init"),
        report_later(published, "Init"),
        report_later(published, "Ready", "ProbePending", "its probe isn't answered yet"),
        report_later(published, "Running", url="https://webui.example/"),
    )
    result = wait("solo-ada/webui", "--for", "running", meanwhile=steps)
    assert result == (
        0,
        f"(0s) instance solo-ada/webui in eu-1: Published: {NEVER}{LATER}\n"
        "(5s) instance solo-ada/webui in eu-1: Init; next: its container starts\n"
        "(15s) instance solo-ada/webui in eu-1: Starting: its probe isn't answered yet; next: it answers its probe\n"
        "(20s) instance solo-ada/webui in eu-1: Running: open https://webui.example/\n",
        "",
    )
    assert wait("solo-ada/webui").code == 0, "at once, where it is so"


def test_time_is_up(wait: Wait) -> None:
    result = wait("solo-ada/webui", "--timeout", "1m30s")
    assert result == (
        124,
        f"(0s) instance solo-ada/webui in eu-1: Published: {NEVER}{LATER}\n",
        f"solo-ada/webui: {UNKNOWN}; {REPORTS}\n",
    )


@pytest.mark.parametrize("columns", [30, 80])
def test_a_terminal_has_a_line_that_counts_the_seconds(columns: int, published: Place) -> None:
    report_later(published, "Init")()
    words = [*ALLOT, "wait", "solo-ada/webui", "--timeout", "3s", "--repo", str(published.root)]
    screen = run_in_terminal(words, published.root, columns)
    live = [line.rpartition("\r")[2] for line in screen.text.replace("\r", "\n\r").splitlines() if " of 3s, " in line]
    assert screen.status == 124
    assert len(live) >= 2, screen.text
    assert live[0][2:] == " of 3s, waiting for Running; next: its container starts"[: columns - 3]
    assert screen.raw.count("\r\x1b[K") == len(live) + 1, "it is cleared in the end"


def test_json(wait: Wait, published: Place) -> None:
    result = wait("solo-ada/webui", "-o", "json", meanwhile=(report_later(published, "Running"),))
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
    failed = wait("solo-ada/webui", "--for", "gone", "-o", "json")
    assert (failed.code, checked("wait", failed.out)["outcome"]) == (1, "Failed")


@pytest.mark.parametrize(
    ("words", "expected_error"),
    [
        (("solo-ada",), "Error: solo-ada is not in the format TENANT/NAME: name an instance, storage or snapshot"),
        (("solo-ada/webiu",), "allot: solo-ada has no resource named 'webiu': no such name is declared, published or reported; did you mean 'webui'?"),
        (("solo-ada/webui", "--timeout", "10"), "Error: Invalid value for '--timeout': '10' is not a duration: write hours, minutes and seconds, such as 1h30m"),
    ],
)  # fmt: skip
def test_wait_refuses_unknown_names_and_invalid_options(
    words: tuple[str, ...], expected_error: str, wait: Wait
) -> None:
    result = wait(*words)
    assert (result.code, result.out, result.err.splitlines()[-1]) == (2, "", expected_error)
