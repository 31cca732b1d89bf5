"""A forked call returns the result of its function, or None if the process fails, and leaves no process behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import pytest

from allotment.adapters.forked_call import ForkedCall

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # threads of pytest-xdist


def fail() -> NoReturn:
    raise RuntimeError("no result")


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


@pytest.fixture
def pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the id of each forked process."""
    pids: list[int] = []
    fork = os.fork

    def recorded_fork() -> int:
        pids.append(fork())
        return pids[-1]

    monkeypatch.setattr(os, "fork", recorded_fork)
    return pids


def assert_all_ended(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize("value", [{"solo-ada": "token"}, "x" * 1_000_000, []])
def test_the_result_arrives(value: object, pids: list[int]) -> None:
    call = ForkedCall(lambda: value)
    assert call.result() == value
    assert call.result() == value
    call.close()
    assert_all_ended(pids)


@pytest.mark.parametrize("function", [fail, interrupt, sys.exit, lambda: os._exit(3), object])
def test_a_failure_has_no_result(
    function: Callable[[], object], pids: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert ForkedCall(function).result() is None
    assert_all_ended(pids)
    assert capfd.readouterr() == ("", "")


def test_a_call_that_nobody_needs_is_ended(pids: list[int]) -> None:
    call = ForkedCall(lambda: time.sleep(3600))
    call.close()
    assert call.result() is None
    assert_all_ended(pids)


def test_a_system_without_room_for_a_process_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> NoReturn:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    call = ForkedCall(lambda: 1)
    assert call.result() is None
    call.close()
