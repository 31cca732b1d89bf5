"""The JSON output of `allot instance list`."""

from __future__ import annotations

from allotment.observed.resource_rows import InstanceRowOutput
from allotment.reports.outputs.output import Output


class InstanceListOutput(Output, frozen=True, kw_only=True, tag="InstanceListOutput"):
    """The selected instances in the requested order, and the currency of their costs."""

    currency: str
    instances: tuple[InstanceRowOutput, ...]
