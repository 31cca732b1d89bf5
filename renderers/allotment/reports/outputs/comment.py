"""What `allot comment` said on the forge, as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class SaidOutput(Part, frozen=True):
    """What was said on pull requests of one commit: `state` is that of the commit status allot/plan, null where nothing was
    said, and `words` are the status's or why; `trouble` is what kept it from being said, as the metrics call it."""

    numbers: tuple[int, ...]
    state: Literal["pending", "success", "failure"] | None
    words: str
    trouble: Literal["forge", "refused", "bug"] | None


class CommentOutput(Output, frozen=True, kw_only=True, tag="CommentOutput"):
    """What was said. With `--all`, how many pull requests are open and how many merges don't run yet; else null."""

    results: tuple[SaidOutput, ...] = msgspec.field(name="said")
    open: int | None
    going: int | None
