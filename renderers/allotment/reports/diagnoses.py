"""Render diagnoses as a table for people: one row for each diagnosis, with the fix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from allotment.diagnosis.diagnosis import Diagnosis
from allotment.problems import pluralize
from allotment.reports.sheets import Sheet, sanitize_sentence, sanitize_value

_STYLES = {"error": "bold red", "warning": "yellow", "skipped": "dim", "ok": "green"}


def diagnosis_sheet(diagnoses: Sequence[Diagnosis]) -> Sheet:
    """Return a table of diagnoses."""
    table = Sheet("RESULT", "TOPIC", "OBJECT", "WHAT", "WHAT TO DO", long=("WHAT", "WHAT TO DO"))
    for diagnosis in diagnoses:
        result = Text(diagnosis.severity, style=_STYLES[diagnosis.severity])
        table.add_row(
            result,
            sanitize_value(diagnosis.topic),
            sanitize_value(diagnosis.subject),
            sanitize_sentence(diagnosis.message),
            sanitize_sentence(diagnosis.advice),
        )
    return table


def diagnosis_summary(diagnoses: Sequence[Diagnosis]) -> str:
    """Return the number of diagnoses by severity, such as `1 error, 2 warnings, 1 skipped, 20 ok`."""
    counts = Counter(diagnosis.severity for diagnosis in diagnoses)
    parts = [pluralize(counts[severity], severity) for severity in ("error", "warning") if counts[severity]]
    return (
        ", ".join([*parts, *(f"{counts[severity]} {severity}" for severity in ("skipped", "ok") if counts[severity])])
        or "nothing was found"
    )
