"""Cordon: nodes that leave service for a time."""

import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.references import NodePoolReference
from allotment.declared.values import Date, LineOfText, Text, pattern_field

NodeName = Annotated[
    str,
    pattern_field(
        r"^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$",
        "the name of a Node such as ip-10-0-3-7.ec2.internal",
        max_length=253,
    ),
]


class CordonSpec(Spec):
    """The nodes and days of the cordon, and the treatment of the instances on the nodes."""

    node_pool: NodePoolReference = Field(description="The name of the NodePool of the nodes.")
    node: NodeName | None = Field(default=None, description="The name of the node. Default: all nodes of the pool.")
    reason: LineOfText = Field(description="The reason, for the platform team and for the tenants of the nodes.")
    evidence: Text | None = Field(
        default=None, description="The evidence for the reason, such as an alert or a message of the driver."
    )
    start: Date = Field(
        alias="from",
        description="The first day of the cordon, quoted. The day starts at midnight in the billing time zone.",
    )
    until: Date | None = Field(
        default=None,
        description="The first day without the cordon, quoted. Default: the cordon ends when the file is removed.",
    )
    drain: Literal["WhenStopped", "Now"] = Field(
        default="WhenStopped",
        description="WhenStopped: instances stay on the node until they stop. Now: each instance moves to another node"
        " on the first day; this restarts it.",
    )

    @model_validator(mode="after")
    def _check_days(self) -> Self:
        if self.until is not None and self.until <= self.start:
            raise PydanticCustomError(
                "cordon-days",
                "until is {until}, and from is {start}: the cordon ends before it begins; write a later day, or remove until",
                {"until": self.until.isoformat(), "start": self.start.isoformat()},
            )
        return self

    def is_active(self, day: datetime.date) -> bool:
        """Return whether the nodes are out of service on a day."""
        return self.start <= day and not self.has_ended(day)

    def has_ended(self, day: datetime.date) -> bool:
        """Return whether the cordon ended on a day, or earlier."""
        return self.until is not None and self.until <= day


class Cordon(Declaration):
    """Takes a node, or all nodes of a pool, out of service from one day until another.

    Meanwhile no instance starts there, and the stocks of the pool count only the units that fit on the other nodes.
    """

    kind: Literal["Cordon"]
    spec: CordonSpec
