"""What `allot render` wrote, as JSON."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class RenderOutput(Output, frozen=True, kw_only=True, tag="RenderOutput"):
    """How many files of how many clusters and tenants the folder holds now, and what became of them."""

    folder: str
    clusters: int
    tenants: int
    files: int
    added: int
    changed: int
    removed: int
    unchanged: int
    warnings: int
