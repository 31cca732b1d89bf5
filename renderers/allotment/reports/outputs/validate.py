"""The JSON output of `allot validate`."""

from __future__ import annotations

from typing import Literal

from allotment.output_part import Part
from allotment.problems import Problem
from allotment.reports.outputs.output import Output, output_of


class ProblemOutput(Part, frozen=True):
    """A problem. Lines and columns count from 1. `related` are the other files that cause the problem or are
    affected by it."""

    path: str
    line: int
    column: int
    field: str
    message: str
    rule: str
    severity: Literal["error", "warning"]
    related: tuple[str, ...]


class ValidateOutput(Output, frozen=True, kw_only=True, tag="ValidateOutput"):
    """The problems in `files` files of `tenants` tenants (null if only a part of the repository was validated).

    `elsewhere` counts the errors in the rest of the repository.
    """

    files: int
    tenants: int | None
    elsewhere: int
    problems: tuple[ProblemOutput, ...]


def problem_output(problem: Problem) -> ProblemOutput:
    """Return the output of a problem."""
    return output_of(ProblemOutput, problem)
