"""What `allot doctor` found, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from allotment.diagnosis.diagnosis import Diagnosis
from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class FindingOutput(Part, frozen=True):
    """Something that was looked at: `object`, such as `Node l4-ts4-1`, what there is to say of it, and what to do, empty where
    nothing is. `skipped` is what can't be told, and `message` says why."""

    severity: Literal["error", "warning", "skipped", "ok"]
    topic: str
    object: str
    message: str
    advice: str


class DoctorOutput(Output, frozen=True, kw_only=True, tag="DoctorOutput"):
    """What was found about a cluster, or about the repository, where `cluster` is null: problems first, and how many of each."""

    cluster: str | None
    errors: int
    warnings: int
    skipped: int
    ok: int
    findings: tuple[FindingOutput, ...]


def doctor_output(cluster: str | None, diagnoses: Sequence[Diagnosis]) -> DoctorOutput:
    """Return diagnoses as they are printed."""
    counts = Counter(diagnosis.severity for diagnosis in diagnoses)
    return DoctorOutput(
        cluster=cluster,
        errors=counts["error"],
        warnings=counts["warning"],
        skipped=counts["skipped"],
        ok=counts["ok"],
        findings=tuple(
            FindingOutput(diagnosis.severity, diagnosis.topic, diagnosis.subject, diagnosis.message, diagnosis.advice)
            for diagnosis in diagnoses
        ),
    )
