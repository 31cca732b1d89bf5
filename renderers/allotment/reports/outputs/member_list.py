"""The JSON output of `allot member list`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from allotment.observed.tenant_rows import MemberRow
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class MemberRowOutput(Part, frozen=True, kw_only=True):
    """A user of a tenant, or a group of the identity provider. `sshKeys` is the number of SSH keys."""

    tenant: str
    name: str
    kind: Literal["User", "Group"]
    role: Literal["Admin", "Member", "Viewer"]
    login: str | None
    ssh_keys: int


class MemberListOutput(Output, frozen=True, kw_only=True, tag="MemberListOutput"):
    """The selected members in the requested order."""

    members: tuple[MemberRowOutput, ...]


def member_rows_output(rows: Iterable[MemberRow]) -> tuple[MemberRowOutput, ...]:
    """Return the output of members."""
    return tuple(output_of(MemberRowOutput, row) for row in rows)
