"""What a change of an Ownership means: which files and fields somebody approves who is new in a team or in a rule."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.changes.fields import WHOLE, FieldChange
from allotment.declared.approvers import PLATFORM_TEAM, covers, matches
from allotment.declared.kinds.members import Role
from allotment.declared.kinds.ownership import Approver, OwnershipSpec, PathRule
from allotment.problems import printable

NAMED = 4  # patterns and fields that a team approves
_WHO: dict[Role, str] = {"Viewer": "Viewer, Member and Admin", "Member": "Member and Admin", "Admin": "Admin"}
_RULE = "spec.paths["
_MEMBERS = "tenants/any/members.yaml"


def meaning(one: FieldChange, spec: OwnershipSpec) -> str:
    """Return what a change of a field means to who approves what, by the Ownership afterwards; empty where the field says
    it."""
    return next(iter((*_of_team(one, spec), *_of_rule(one, spec), *_of_gone(one, spec))), "")


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


def _of_gone(one: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    """Yield who approves the files of a rule that goes: the approvers of the most specific pattern that matches all of them.
    What a narrower one matches is that one's, before and afterwards."""
    gone = one.field.removeprefix(_RULE).removesuffix("]")
    if one.field != f"{_RULE}{gone}]" or one.after is not None:
        return
    found: PathRule | None = None
    for rule in spec.paths:
        if covers(rule.path, gone) and (found is None or covers(found.path, rule.path)):
            found = rule
    if found is None:
        yield f"no other pattern matches its files: team {PLATFORM_TEAM} approves them"
        return
    who = [_words(each) for each in found.approvers]
    verb = "approves" if len(who) == 1 else "approve"
    yield f"{printable(found.path, WHOLE.name)} takes its files: {' or '.join(who)} {verb} them"


def _words(one: Approver) -> str:
    return (
        f"tenantRole {one.tenant_role}" if one.tenant_role else f"team {one.team}" if one.team else f"login {one.login}"
    )
