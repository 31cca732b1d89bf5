"""The JSON output of `allot storage list`."""

from __future__ import annotations

from allotment.observed.resource_rows import StorageRowOutput
from allotment.reports.outputs.output import Output


class StorageListOutput(Output, frozen=True, kw_only=True, tag="StorageListOutput"):
    """The selected storages in the requested order, and the currency of their costs."""

    currency: str
    storages: tuple[StorageRowOutput, ...]
