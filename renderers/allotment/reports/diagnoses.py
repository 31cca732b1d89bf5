"""Diagnoses for people: a line each, problems first, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from allotment.diagnosis.diagnosis import Diagnosis
from allotment.problems import counted
from allotment.reports.sheets import Sheet, plain, words

_STYLES = {"error": "bold red", "warning": "yellow", "skipped": "dim", "ok": "green"}


def sheet(found: Sequence[Diagnosis]) -> Sheet:
    """Return a table of diagnoses."""
    table = Sheet("RESULT", "TOPIC", "OBJECT", "WHAT", "WHAT TO DO", long=("WHAT", "WHAT TO DO"))
    for one in found:
        result = Text(one.severity, style=_STYLES[one.severity])
        table.add(result, plain(one.topic), plain(one.what), words(one.words), words(one.advice))
    return table


def summary(found: Sequence[Diagnosis]) -> str:
    """Return how many there are of each, such as `1 error, 2 warnings, 1 skipped, 20 ok`."""
    counts = Counter(one.severity for one in found)
    parts = [counted(counts[one], one) for one in ("error", "warning") if counts[one]]
    return (
        ", ".join([*parts, *(f"{counts[one]} {one}" for one in ("skipped", "ok") if counts[one])])
        or "nothing was found"
    )
