"""The JSON output of `allot instance list`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

import msgspec

from allotment.declared.values import format_size
from allotment.observed.resource_rows import InstanceRow
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class PullRequestOutput(Part, frozen=True):
    """An open pull request that adds, changes or removes a resource."""

    number: int
    url: str
    change: Literal["add", "change", "remove"]


class InstanceRowOutput(Part, frozen=True, kw_only=True):
    """An instance.

    `state` is the declared state; it is null if the instance is not declared, or if its file is invalid. `reportedState`,
    `reason` and `message` are as in `allot status`; they are empty for a pull request. `units` are the units that the instance holds now: 0 if it is stopped.
    `readyReplicas` is null if the cluster has not reported the instance. `gpuMemory` is the memory of each GPU or GPU
    slice. `costPerHour` is in the currency of the list; it is null if the cost is unknown. `pullRequest` is null unless the
    row is from an open pull request.
    """

    tenant: str
    name: str
    cluster: str
    state: str | None
    reported_state: str | None
    reason: str
    message: str
    is_as_declared: bool = msgspec.field(name="asDeclared")
    replicas: int
    units: int
    ready: int | None = msgspec.field(name="readyReplicas")
    gpu_spec: str
    gpu_model: str | None
    gpu_memory: str | None
    app: str | None
    url: str | None
    since: str | None
    cost_per_hour: Decimal | None
    storages: tuple[str, ...]
    labels: dict[str, str]
    path: str
    pull_request: PullRequestOutput | None


class InstanceListOutput(Output, frozen=True, kw_only=True, tag="InstanceListOutput"):
    """The selected instances in the requested order, and the currency of their costs."""

    currency: str
    instances: tuple[InstanceRowOutput, ...]


def instance_rows_output(rows: Iterable[InstanceRow]) -> tuple[InstanceRowOutput, ...]:
    """Return the output of instances."""
    return tuple(
        output_of(InstanceRowOutput, row, gpu_memory=format_size(row.gpu_memory) if row.gpu_memory else None)
        for row in rows
    )
