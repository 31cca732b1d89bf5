"""The JSON output of `allot schema`."""

from __future__ import annotations

from allotment.reports.outputs.output import Output


class SchemaOutput(Output, frozen=True, kw_only=True, tag="SchemaOutput"):
    """The schemas that were out of date. `written` is false if the command only listed the schemas."""

    changed: tuple[str, ...]
    written: bool
