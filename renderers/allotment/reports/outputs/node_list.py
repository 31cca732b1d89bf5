"""The JSON output of `allot node list`."""

from __future__ import annotations

from allotment.observed.node_rows import NodeRowOutput
from allotment.reports.outputs.output import Output


class NodeListOutput(Output, frozen=True, kw_only=True, tag="NodeListOutput"):
    """The selected nodes in the requested order."""

    nodes: tuple[NodeRowOutput, ...]
