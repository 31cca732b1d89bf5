"""What `allot history` shows, as JSON."""

from __future__ import annotations

import msgspec

from allotment.observed.status import Transition
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class ChangeOutput(Part, frozen=True):
    """A change of state of an instance, storage or snapshot. `from` is null where it began, `to` where it is gone."""

    time: str
    cluster: str
    kind: str
    name: str
    source: str | None = msgspec.field(name="from")
    target: str | None = msgspec.field(name="to")
    reason: str


class HistoryOutput(Output, frozen=True, kw_only=True, tag="HistoryOutput"):
    """The newest changes of state of a tenant, or of one of its things, oldest first."""

    tenant: str
    changes: tuple[ChangeOutput, ...]


def change_output(cluster: str, transition: Transition) -> ChangeOutput:
    """Return a change as it is printed."""
    return output_of(ChangeOutput, transition, cluster=cluster)
