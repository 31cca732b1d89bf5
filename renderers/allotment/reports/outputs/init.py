"""What `allot init` wrote, as JSON."""

from __future__ import annotations

from allotment.reports.outputs.output import Output, Part


class BlankOutput(Part, frozen=True):
    """A value that is still to be filled in, and what for."""

    path: str
    line: int
    field: str
    description: str


class InitOutput(Output, frozen=True, kw_only=True, tag="InitOutput"):
    """A new repository in `folder`: its files, what is still to be filled in, and the commands that come next."""

    folder: str
    files: tuple[str, ...]
    blanks: tuple[BlankOutput, ...]
    next: tuple[str, ...]
