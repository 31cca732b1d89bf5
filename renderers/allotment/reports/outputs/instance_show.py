"""The JSON output of `allot instance show`."""

from __future__ import annotations

from allotment.observed.resource_rows import InstanceRowOutput
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.status import TenantOutput


class InstanceShowOutput(Output, frozen=True, kw_only=True, tag="InstanceShowOutput"):
    """The declared facts and the cost of an instance, and its status as in `allot status`.

    Both lists have an entry for each cluster that has the instance.
    """

    currency: str
    instances: tuple[InstanceRowOutput, ...]
    status: tuple[TenantOutput, ...]
