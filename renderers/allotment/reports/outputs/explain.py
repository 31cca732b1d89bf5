"""What `allot explain` says, as JSON."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class FieldOutput(Part, frozen=True):
    """A field. `limits` says in words what else its value keeps to; `default` is what its absence means, if anything."""

    name: str
    type: str
    limits: str
    required: bool
    default: str
    description: str


class ExplainOutput(Output, frozen=True, kw_only=True, tag="ExplainOutput"):
    """The manual page of `subject`: a kind, a field with its path, `rule NAME`, or `reason NAME` of a
    condition or reason that a status has.

    `file` is where a kind's files lie; `itself` is the field, where the subject is one; `fields` are those below it.
    `example` is a file of the kind.
    """

    subject: str
    file: str = ""
    description: str
    itself: FieldOutput | None = None
    fields: tuple[FieldOutput, ...] = ()
    example: str = ""
