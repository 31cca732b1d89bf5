"""The JSON output of `allot explain`."""

from __future__ import annotations

from allotment.output_part import Part
from allotment.reports.outputs.output import Output


class FieldOutput(Part, frozen=True):
    """A field of a declaration: its name, and the type and limits of its value.

    `default` is the value that an absent field has; it is empty if the field has no default.
    """

    name: str
    type: str
    limits: str
    required: bool
    default: str
    description: str


class ExplainOutput(Output, frozen=True, kw_only=True, tag="ExplainOutput"):
    """The manual page of `subject`.

    A subject is a kind, a field with its path, `rule NAME`, or `reason NAME` for a condition or reason of a status.
    `file` is the path of a kind's files. If the subject is a field, `itself` describes this field. `fields` are the
    fields below the subject. `example` is a file of the kind.
    """

    subject: str
    file: str = ""
    description: str
    itself: FieldOutput | None = None
    fields: tuple[FieldOutput, ...] = ()
    example: str = ""
