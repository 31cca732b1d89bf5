"""The JSON output of `allot doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from allotment.diagnosis.diagnosis import Diagnosis
from allotment.reports.outputs.output import Output


class DoctorOutput(Output, frozen=True, kw_only=True, tag="DoctorOutput"):
    """The diagnoses of a cluster, or of the repository if `cluster` is null.

    `findings` has the diagnoses, the most severe first. The numbers count the diagnoses of each severity.
    """

    cluster: str | None
    errors: int
    warnings: int
    skipped: int
    ok: int
    findings: tuple[Diagnosis, ...]


def doctor_output(cluster: str | None, diagnoses: Sequence[Diagnosis]) -> DoctorOutput:
    """Return the output of diagnoses."""
    counts = Counter(diagnosis.severity for diagnosis in diagnoses)
    return DoctorOutput(
        cluster=cluster,
        errors=counts["error"],
        warnings=counts["warning"],
        skipped=counts["skipped"],
        ok=counts["ok"],
        findings=tuple(diagnoses),
    )
