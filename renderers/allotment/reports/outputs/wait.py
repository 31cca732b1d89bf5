"""The JSON output of `allot wait`."""

from __future__ import annotations

import msgspec

from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import Snapshot
from allotment.observed.wait_goals import WaitOutcome
from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class AwaitedOutput(Part, frozen=True):
    """The progress of a resource. `state`, `why` and `wayOut` are the same as in the output of `allot status`."""

    kind: str
    cluster: str | None
    state: str
    why: str
    way_out: str
    url: str | None


class WaitOutput(Output, frozen=True, kw_only=True, tag="WaitOutput"):
    """The outcome of a wait, and its duration in seconds.

    Failed means that the resources can't reach the goal without another merge or an action of a person.
    """

    tenant: str
    name: str
    goal: str = msgspec.field(name="for")
    outcome: WaitOutcome
    seconds: float
    resources: tuple[AwaitedOutput, ...] = msgspec.field(name="things")


def awaited_output(row: ResourceStatus) -> AwaitedOutput:
    """Return the output of a resource."""
    url = row.observed.url if row.observed is not None and not isinstance(row.observed, Snapshot) else ""
    cluster = row.resource.cluster or None
    return AwaitedOutput(row.resource.kind, cluster, row.state, row.explanation, row.stage.remedy, url or None)
