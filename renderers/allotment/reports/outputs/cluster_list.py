"""The JSON output of `allot cluster list`."""

from __future__ import annotations

from allotment.observed.catalog_rows import ClusterRowOutput
from allotment.reports.outputs.output import Output


class ClusterListOutput(Output, frozen=True, kw_only=True, tag="ClusterListOutput"):
    """The selected clusters in the requested order."""

    clusters: tuple[ClusterRowOutput, ...]
