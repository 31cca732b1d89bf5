"""The JSON output of `allot storage show`."""

from __future__ import annotations

from allotment.observed.resource_rows import StorageRowOutput
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.status import TenantOutput


class StorageShowOutput(Output, frozen=True, kw_only=True, tag="StorageShowOutput"):
    """The declared facts and the cost of a storage, and its status as in `allot status`.

    Both lists have an entry for each cluster that has the storage.
    """

    currency: str
    storages: tuple[StorageRowOutput, ...]
    status: tuple[TenantOutput, ...]
