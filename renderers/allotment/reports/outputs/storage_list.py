"""The JSON output of `allot storage list`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from allotment.declared.values import format_size
from allotment.observed.resource_rows import StorageRow
from allotment.output_part import Part
from allotment.reports.outputs.instance_list import PullRequestOutput
from allotment.reports.outputs.output import Output, output_of


class StorageRowOutput(Part, frozen=True, kw_only=True):
    """A storage.

    `reportedState`, `reason` and `message` are as in `allot status`; they are empty for a pull request. `storageSpec` and `size` are null if the storage is not
    declared, or if its file is invalid. `capacity` is the size that the cluster reports. `source` is the kind of source that
    fills the storage. `preparation` is the state of the last attempt, and null if the cluster reports no preparation.
    `attempt` is the number of this attempt. `mountedBy` names the instances that mount the storage. `costPerHour` is in the currency of the
    list; it is null if the cost is unknown. `pullRequest` is null unless the row is from an open pull request.
    """

    tenant: str
    name: str
    cluster: str
    reported_state: str | None
    reason: str
    message: str
    is_as_declared: bool = msgspec.field(name="asDeclared")
    storage_spec: str | None
    size: str | None
    capacity: str | None
    source: str | None
    preparation: str | None
    attempt: int
    mounted_by: tuple[str, ...]
    url: str | None
    since: str | None
    cost_per_hour: Decimal | None
    labels: dict[str, str]
    path: str
    pull_request: PullRequestOutput | None


class StorageListOutput(Output, frozen=True, kw_only=True, tag="StorageListOutput"):
    """The selected storages in the requested order, and the currency of their costs."""

    currency: str
    storages: tuple[StorageRowOutput, ...]


def storage_rows_output(rows: Iterable[StorageRow]) -> tuple[StorageRowOutput, ...]:
    """Return the output of storages."""
    return tuple(output_of(StorageRowOutput, row, size=format_size(row.size) if row.size else None) for row in rows)
