"""What `allot fmt` did, as JSON."""

from __future__ import annotations

from allotment.reports.outputs.output import Output
from allotment.reports.outputs.validate import ProblemOutput


class FmtOutput(Output, frozen=True, kw_only=True, tag="FmtOutput"):
    """The files whose form isn't canonical, `written` or only found; `problems` are of files that can't be read."""

    changed: tuple[str, ...]
    written: bool
    problems: tuple[ProblemOutput, ...]
