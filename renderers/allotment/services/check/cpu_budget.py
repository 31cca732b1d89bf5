"""What one tenant may take of a publish: processor time for reading, checking and rendering it, files and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

T = TypeVar("T")
DEFAULT_SECONDS = 5.0  # a large tenant takes a hundredth of it
MAX_FILES = 10_000
MAX_BYTES = 64 << 20
RULE = "share"


class Rejection(NamedTuple):
    """The rejection of a tenant: the reason in words, the rule, and the trace of the bug that caused it, if any."""

    message: str
    rule: str
    trace: str = ""


BUDGET_REJECTION = Rejection(
    "it takes longer than a tenant's share of a publish: declare less, or split it into several tenants", RULE
)


class BudgetExceeded(Exception):
    """A tenant has taken its share."""


class CpuBudget:
    """A tenant's share: what is done for it goes through here, and ends between two steps once it has taken too long.

    It is processor time, so that a machine which is busy with something else takes nobody's share.
    """

    def __init__(self, seconds: float | None) -> None:
        self._remaining = seconds
        self._started_cpu = 0.0
        self._started_wall = 0.0  # its clock costs a fraction, and nothing takes more processor time than that

    def meter(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items; what it takes to make them and to use them counts. Raises BudgetExceeded."""
        if self._remaining is None:
            yield from items
            return
        for item in items:
            yield item
            if self._remaining < time.perf_counter() - self._started_wall and self._remaining < self._elapsed():
                raise BudgetExceeded

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Count what is done meanwhile. Raises BudgetExceeded, now or in `meter`."""
        if self._remaining is None:
            yield
            return
        if self._remaining < 0:
            raise BudgetExceeded
        self._started_cpu, self._started_wall = time.thread_time(), time.perf_counter()
        try:
            yield
        finally:
            self._remaining -= self._elapsed()

    def _elapsed(self) -> float:
        return time.thread_time() - self._started_cpu
