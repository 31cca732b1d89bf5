"""Waits double up to a limit, and differ by chance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.adapters.backoff import NO_BACKOFF, Backoff


def test_waits_double_up_to_the_limit() -> None:
    backoff = Backoff(0.5, 3.0, jitter=(1, 1))
    assert [backoff.delay(failures) for failures in range(6)] == [0.5, 0.5, 1.0, 2.0, 3.0, 3.0]
    assert NO_BACKOFF.delay(3) == 0


@given(st.integers(0, 10**9))
def test_the_jitter_is_bounded(failures: int) -> None:
    wait = Backoff(2.0, 64.0).delay(failures)
    assert 1.5 <= wait <= 80
    assert 0 <= Backoff(2.0, 64.0, jitter=(0, 1)).delay(failures) <= 64


def test_two_waits_differ() -> None:
    assert len({Backoff(1.0, 1.0).delay(1) for _ in range(10)}) > 1
