"""What `allot validate` found, as JSON."""

from __future__ import annotations

from typing import Literal

from allotment.output_part import Part
from allotment.problems import Problem
from allotment.reports.outputs.output import Output, output_of


class ProblemOutput(Part, frozen=True):
    """A problem. Lines and columns count from 1; `related` names the other files that have a part in it."""

    path: str
    line: int
    column: int
    field: str
    message: str
    rule: str
    severity: Literal["error", "warning"]
    related: tuple[str, ...]


class ValidateOutput(Output, frozen=True, kw_only=True, tag="ValidateOutput"):
    """What is wrong with `files` files of `tenants` tenants (null for a part of the repository).

    `elsewhere` counts the errors that the rest of the repository has.
    """

    files: int
    tenants: int | None
    elsewhere: int
    problems: tuple[ProblemOutput, ...]


def problem_output(problem: Problem) -> ProblemOutput:
    """Return a problem as it is printed."""
    return output_of(ProblemOutput, problem)
