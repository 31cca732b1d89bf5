"""Waits for something that tests expect, however busy the machine is.

A limit counts quiet seconds: while more processes want to run than the machine has cores, a second counts less. Therefore a
limit says how long something takes by itself, and no test depends on what runs beside it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE, MAX_PATIENT_SECONDS = (
    3,
    240,
)  # a short wait may take three times its limit: Argo CD forgets a request now and then
MOST_LOAD = 4.0  # of a core; a higher load gives no more time, so that each wait ends


class NotInTime(Exception):
    """Something that a test waits for did not happen within its time. Only a test that raises this may run once more."""


class Final(Exception):
    """What a test waits for will never happen, such as an answer of a process that ended."""


def measure_load() -> float:
    """Return how many processes want to run on each core: the average of the last minute, at least 1."""
    return min(MOST_LOAD, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def eventually(check: Callable[[], T | None], what: str, seconds: float = 60, pause: float = 0.2) -> T:
    """Return the first value of `check` that is true. Raises NotInTime with the last answer if that takes too long.

    An exception of `check` counts as "not yet"; Final ends the wait. `seconds` are quiet seconds.
    """
    seconds = max(seconds, min(PATIENCE * seconds, MAX_PATIENT_SECONDS))
    waited, begun = 0.0, time.monotonic()
    last: object = None
    while waited < seconds:
        since = time.monotonic()
        try:
            last = answer = check()
            if answer:
                return answer
        except (Final, NotInTime):  # also of a wait within this one
            raise
        except Exception as error:  # whatever it is, the next check may succeed; the message shows the last one
            last = error
        time.sleep(pause)
        waited += (time.monotonic() - since) / measure_load()
    took = time.monotonic() - begun
    raise NotInTime(f"{what}: not within {seconds:.0f} quiet seconds ({took:.0f} s); last answer: {last!r}")
