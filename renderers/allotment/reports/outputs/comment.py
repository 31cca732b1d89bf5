"""The JSON output of `allot comment`."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class SaidOutput(Part, frozen=True):
    """The result for the pull requests of a commit.

    `state` is the state of the commit status allot/plan; it is null if the command wrote no status. `words` are the
    text of the status, or the reason why there is no status. `trouble` is the kind of failure that prevented the
    status, by its name in the metrics.
    """

    numbers: tuple[int, ...]
    state: Literal["pending", "success", "failure"] | None
    words: str
    trouble: Literal["forge", "refused", "bug"] | None


class CommentOutput(Output, frozen=True, kw_only=True, tag="CommentOutput"):
    """The results for the commits that the command handled.

    With `--all`, `open` counts the open pull requests, and `going` counts the merged pull requests with resources that
    do not run yet. Without `--all`, both are null.
    """

    results: tuple[SaidOutput, ...] = msgspec.field(name="said")
    open: int | None
    going: int | None
