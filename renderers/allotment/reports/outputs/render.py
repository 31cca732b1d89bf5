"""The JSON output of `allot render`."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class RenderOutput(Output, frozen=True, kw_only=True, tag="RenderOutput"):
    """The numbers of clusters, tenants and files in the folder.

    `added`, `changed`, `removed` and `unchanged` count the files that this run added, changed, removed or left
    unchanged.
    """

    folder: str
    clusters: int
    tenants: int
    files: int
    added: int
    changed: int
    removed: int
    unchanged: int
    warnings: int
