"""Exponential backoff: how long to wait before the next attempt."""

from __future__ import annotations

import random
from typing import NamedTuple

MAX_DOUBLINGS = 16
# This module has its own generator, because other code may seed the shared generator of `random`. After a seed, the
# shared generator repeats its numbers.
_RANDOM = random.Random()  # noqa: S311  # the waits are no secret


class Backoff(NamedTuple):
    """The wait after the first failure and the longest wait, in seconds and before the jitter.

    Each wait is multiplied by a random factor from the range `jitter`, so a wait can be longer than `maximum`.
    """

    first: float
    maximum: float
    jitter: tuple[float, float] = (0.75, 1.25)

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after some failures in a row. Each further failure doubles the wait."""
        doublings = min(max(failures - 1, 0), MAX_DOUBLINGS)
        return min(self.maximum, self.first * 2.0**doublings) * _RANDOM.uniform(*self.jitter)


NO_BACKOFF = Backoff(0.0, 0.0)
