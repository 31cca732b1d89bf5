"""What one tenant may take of a publish: processor time for reading, checking and rendering it, files and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

T = TypeVar("T")
SECONDS = 5.0  # a large tenant takes a hundredth of it
MOST_FILES = 10_000
MOST_BYTES = 64 << 20
RULE = "share"


class Stopped(NamedTuple):
    """The rejection of a tenant: the reason in words, the rule, and the trace of the bug that caused it, if any."""

    words: str
    rule: str
    trace: str = ""


TOO_LONG = Stopped(
    "it takes longer than a tenant's share of a publish: declare less, or split it into several tenants", RULE
)


class Spent(Exception):
    """A tenant has taken its share."""


class TimeShare:
    """A tenant's share: what is done for it goes through here, and ends between two steps once it has taken too long.

    It is processor time, so that a machine which is busy with something else takes nobody's share.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = seconds
        self._begun = 0.0
        self._begun_by_the_wall = 0.0  # its clock costs a fraction, and nothing takes more processor time than that

    def through(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items; what it takes to make them and to use them counts. Raises Spent."""
        if self._left is None:
            yield from items
            return
        for item in items:
            yield item
            if self._left < time.perf_counter() - self._begun_by_the_wall and self._left < self._taken():
                raise Spent

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Count what is done meanwhile. Raises Spent, now or in `through`."""
        if self._left is None:
            yield
            return
        if self._left < 0:
            raise Spent
        self._begun, self._begun_by_the_wall = time.thread_time(), time.perf_counter()
        try:
            yield
        finally:
            self._left -= self._taken()

    def _taken(self) -> float:
        return time.thread_time() - self._begun
