"""The JSON output of `allot fmt`."""

from __future__ import annotations

from allotment.reports.outputs.output import Output
from allotment.reports.outputs.validate import ProblemOutput


class FmtOutput(Output, frozen=True, kw_only=True, tag="FmtOutput"):
    """The files that were not in canonical form.

    `written` is false if the command only listed the files. `problems` are about files that can't be read.
    """

    changed: tuple[str, ...]
    written: bool
    problems: tuple[ProblemOutput, ...]
