"""The JSON output of `allot explain`."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class FieldOutput(Part, frozen=True):
    """A field. `limits` describes the other constraints on its value. `default` is the meaning of an absent field,
    if it has a meaning."""

    name: str
    type: str
    limits: str
    required: bool
    default: str
    description: str


class ExplainOutput(Output, frozen=True, kw_only=True, tag="ExplainOutput"):
    """The manual page of `subject`: a kind, a field with its path, `rule NAME`, or `reason NAME` for a condition or
    reason of a status.

    `file` is the path of a kind's files. `itself` is the field, if the subject is a field. `fields` are the fields
    below the subject. `example` is a file of the kind.
    """

    subject: str
    file: str = ""
    description: str
    itself: FieldOutput | None = None
    fields: tuple[FieldOutput, ...] = ()
    example: str = ""
