"""Recorded uses, as tests need them."""

from __future__ import annotations

from typing import Any

from allotment.billing.periods import parse_moment
from allotment.billing.recorded_use import Use
from allotment.declared.values import GIBI

START = parse_moment("2026-11-01T00:00:00Z")
HOUR = 3600


def unit(start: int, end: int, **more: Any) -> Use:
    """Return a use of a unit, with times in seconds after START."""
    values: dict[str, Any] = {
        "cluster": "eu-1",
        "tenant": "kite",
        "kind": "GPUInstance",
        "name": "webui",
        "uid": f"p-{start}",
        "offer": "l4",
        "size": 0,
        "labels": {},
        "node": "n1",
        "start": START + start,
        "certain_end": START + end,
        "end": START + end,
        "is_open": False,
        "commit": "c0ffee",
    }
    return Use(**values | more)


def stored(start: int, end: int, gib: int = 10, **more: Any) -> Use:
    """Return a use of a storage, with times in seconds after START."""
    values = {"kind": "GPUStorage", "name": "models", "uid": "c1", "offer": "fast", "size": gib * GIBI, "node": ""}
    return unit(start, end, **values | more)
