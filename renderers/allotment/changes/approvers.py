"""What a change of an Ownership means: which files and fields somebody approves who is new in a team or in a rule."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.changes.fields import WHOLE, FieldChange
from allotment.declared.approvers import PLATFORM_TEAM, matches
from allotment.declared.kinds.members import Role
from allotment.declared.kinds.ownership import OwnershipSpec
from allotment.problems import printable

NAMED = 4  # patterns and fields that a team approves
_WHO: dict[Role, str] = {"Viewer": "Viewer, Member and Admin", "Member": "Member and Admin", "Admin": "Admin"}
_MEMBERS = "tenants/any/members.yaml"


def meaning(one: FieldChange, spec: OwnershipSpec) -> str:
    """Return what a change of a field means to who approves what, by the Ownership afterwards; empty where the field says
    it."""
    return next(iter((*_of_team(one, spec), *_of_rule(one, spec))), "")


def _of_team(one: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    for team in spec.teams:
        if one.field.startswith(f"spec.teams[{printable(team.name, WHOLE.name)}]") and one.after is not None:
            what = list(_approved(spec, team.name))
            more = f" and {len(what) - NAMED} more" if len(what) > NAMED else ""
            yield f"team {team.name} approves {', '.join(what[:NAMED]) or 'nothing'}{more}"


def _approved(spec: OwnershipSpec, team: str) -> Iterator[str]:
    """Yield what a team approves, what is widest first."""
    if team == PLATFORM_TEAM:
        yield "whatever no pattern matches"
    yield from (rule.path for rule in spec.paths if any(one.team == team for one in rule.approvers))
    yield from (
        f"{rule.field} of {rule.kind}" for rule in spec.fields if any(one.team == team for one in rule.approvers)
    )


def _of_rule(one: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    """Yield what it means that people of a tenant in a role approve what a pattern matches."""
    for rule in spec.paths:
        if not one.field.startswith(f"spec.paths[{printable(rule.path, WHOLE.name)}]") or one.after is None:
            continue
        for approver in rule.approvers:
            if approver.tenant_role and f"tenantRole {approver.tenant_role}" in one.after:
                who = f"every {_WHO[approver.tenant_role]} of a tenant approves these files of it"
                yield f"{who}, and so who its members are" if matches(rule.path, _MEMBERS) else who
