"""Limits the processor time of a tenant in a publish, and the number and the bytes of a tenant's files."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

T = TypeVar("T")
DEFAULT_SECONDS = 5.0  # a large tenant uses a hundredth of this time
MAX_FILES = 10_000
MAX_BYTES = 64 << 20
RULE = "share"


class Rejection(NamedTuple):
    """The rejection of a tenant: the reason as text, the rule, and the trace if a bug caused the rejection."""

    message: str
    rule: str
    traceback: str = ""


BUDGET_REJECTION = Rejection(
    "it exceeds the time limit of a tenant: declare less, or split it into several tenants", RULE
)


class BudgetExceeded(Exception):
    """A tenant has used up its processor time."""


class CpuBudget:
    """The processor time of one tenant for reading, checking and rendering it.

    The budget limits processor time and not elapsed time, because other work on the machine must not use up the budget
    of a tenant. The budget is checked when `measure` begins, and after each item of `meter`.
    """

    def __init__(self, seconds: float | None) -> None:
        self._remaining = seconds
        self._started_cpu = 0.0
        # The elapsed time is never less than the processor time, and is cheaper to read. Therefore `meter` reads the
        # processor time only after the elapsed time exceeds the budget.
        self._started_wall = 0.0

    def meter(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items. Raises BudgetExceeded after an item if the budget is used up.

        The items must be read within a `measure` block.
        """
        if self._remaining is None:
            yield from items
            return
        for item in items:
            yield item
            if self._remaining < time.perf_counter() - self._started_wall and self._remaining < self._elapsed():
                raise BudgetExceeded

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Subtract the processor time of the `with` block from the budget.

        Raises BudgetExceeded if the budget is already used up when the block begins.
        """
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
