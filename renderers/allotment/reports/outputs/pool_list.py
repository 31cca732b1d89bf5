"""The JSON output of `allot pool list`."""

from __future__ import annotations

from allotment.observed.catalog_rows import PoolRowOutput
from allotment.reports.outputs.output import Output


class PoolListOutput(Output, frozen=True, kw_only=True, tag="PoolListOutput"):
    """The selected node pools in the requested order."""

    pools: tuple[PoolRowOutput, ...]
