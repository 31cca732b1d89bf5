"""The JSON output of `allot member list`."""

from __future__ import annotations

from allotment.observed.tenant_rows import MemberRowOutput
from allotment.reports.outputs.output import Output


class MemberListOutput(Output, frozen=True, kw_only=True, tag="MemberListOutput"):
    """The selected members in the requested order."""

    members: tuple[MemberRowOutput, ...]
