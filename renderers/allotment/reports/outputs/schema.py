"""What `allot schema` did, as JSON."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class SchemaOutput(Output, frozen=True, kw_only=True, tag="SchemaOutput"):
    """The schemas that weren't up to date, `written` or only found."""

    changed: tuple[str, ...]
    written: bool
