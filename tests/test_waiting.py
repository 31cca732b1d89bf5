"""What a wait returns, and what it says if nothing comes."""

from __future__ import annotations

import pytest

from tests.support import waiting
from tests.support.waiting import Final, NotInTime, eventually


def test_a_wait_returns_the_first_answer_that_is_true() -> None:
    answers = iter([None, 0, "here"])
    assert eventually(lambda: next(answers), "it", pause=0) == "here"


def test_a_wait_that_is_too_long_names_what_it_waited_for_and_the_last_answer() -> None:
    def never() -> bool:
        raise LookupError("not there")

    with pytest.raises(
        NotInTime, match=r"it: not within 1 quiet seconds \(\d+ s\); last answer: LookupError\('not there'\)"
    ):
        eventually(never, "it", seconds=0.3)


def test_a_final_answer_ends_the_wait() -> None:
    def ended() -> bool:
        raise Final("the process ended")

    with pytest.raises(Final, match="the process ended"):
        eventually(ended, "it")


def test_a_busy_machine_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """With four processes for each core, eight pauses of an eighth of a second are a quarter of a quiet second."""
    now = [0.0]
    monkeypatch.setattr("tests.support.waiting.time.monotonic", lambda: now[0])
    monkeypatch.setattr("tests.support.waiting.time.sleep", lambda pause: now.__setitem__(0, now[0] + pause))
    for load, asked in ((0.2, 8), (4.0, 32), (1000.0, 32)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load * 2, 0, 0))
        monkeypatch.setattr("os.cpu_count", lambda: 2)
        answers: list[None] = []
        with pytest.raises(NotInTime):
            eventually(lambda answers=answers: answers.append(None), "it", seconds=1 / waiting.PATIENCE, pause=0.125)
        assert len(answers) == asked
