"""The JSON output of `allot history`."""

from __future__ import annotations

import msgspec

from allotment.observed.status import Transition
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class ChangeOutput(Part, frozen=True):
    """A change of the state of an instance, storage or snapshot.

    `from` is null if the resource is new. `to` is null if the resource is gone.
    """

    time: str
    cluster: str
    kind: str
    name: str
    source: str | None = msgspec.field(name="from")
    target: str | None = msgspec.field(name="to")
    reason: str


class HistoryOutput(Output, frozen=True, kw_only=True, tag="HistoryOutput"):
    """The last state changes of a tenant, or of a single resource of the tenant, in the order of their times."""

    tenant: str
    changes: tuple[ChangeOutput, ...]


def change_output(cluster: str, transition: Transition) -> ChangeOutput:
    """Return the output of a state change."""
    return output_of(ChangeOutput, transition, cluster=cluster)
