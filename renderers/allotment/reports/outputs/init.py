"""What `allot init` wrote, as JSON."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class BlankOutput(Part, frozen=True):
    """A value that is still to be filled in, and what for."""

    path: str
    line: int
    field: str
    description: str


class InitOutput(Output, frozen=True, kw_only=True, tag="InitOutput"):
    """A new repository in `folder`: its files, the values to fill in, and the next commands.

    After an upgrade, `files` are those that changed, and `changes` has the difference of each.
    """

    folder: str
    files: tuple[str, ...]
    blanks: tuple[BlankOutput, ...]
    next: tuple[str, ...]
    changes: dict[str, str] | None = None
