"""The JSON output of `allot validate`."""

from __future__ import annotations

from typing import Literal

from allotment.output_part import Part
from allotment.problems import Problem
from allotment.reports.outputs.output import Output, output_of


class ProblemOutput(Part, frozen=True):
    """A problem. The first line and the first column have the number 1.

    `related` are other files that cause the problem, or that the problem affects.
    """

    path: str
    line: int
    column: int
    field: str
    message: str
    rule: str
    severity: Literal["error", "warning"]
    related: tuple[str, ...]


class ValidateOutput(Output, frozen=True, kw_only=True, tag="ValidateOutput"):
    """The problems that a validation found.

    `files` and `tenants` are the numbers of validated files and tenants; `tenants` is null if only a part of the
    repository was validated. `elsewhere` counts the errors in the rest of the repository.
    """

    files: int
    tenants: int | None
    elsewhere: int
    problems: tuple[ProblemOutput, ...]


def problem_output(problem: Problem) -> ProblemOutput:
    """Return the output of a problem."""
    return output_of(ProblemOutput, problem)
