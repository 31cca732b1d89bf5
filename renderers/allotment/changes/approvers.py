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


def meaning(change: FieldChange, spec: OwnershipSpec) -> str:
    """Return what a change of a field means to who approves what, by the Ownership afterwards; empty where the field says
    it."""
    return next(iter((*_of_team(change, spec), *_of_rule(change, spec), *_of_gone(change, spec))), "")


def _of_team(change: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    for team in spec.teams:
        if change.field.startswith(f"spec.teams[{printable(team.name, WHOLE.name)}]") and change.after is not None:
            approvals = list(_approved(spec, team.name))
            more = f" and {len(approvals) - NAMED} more" if len(approvals) > NAMED else ""
            yield f"team {team.name} approves {', '.join(approvals[:NAMED]) or 'nothing'}{more}"


def _approved(spec: OwnershipSpec, team: str) -> Iterator[str]:
    """Yield what a team approves, what is widest first."""
    if team == PLATFORM_TEAM:
        yield "whatever no pattern matches"
    yield from (rule.path for rule in spec.paths if any(approver.team == team for approver in rule.approvers))
    yield from (
        f"{rule.field} of {rule.kind}"
        for rule in spec.fields
        if any(approver.team == team for approver in rule.approvers)
    )


def _of_rule(change: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    """Yield what it means that people of a tenant in a role approve what a pattern matches."""
    for rule in spec.paths:
        if not change.field.startswith(f"spec.paths[{printable(rule.path, WHOLE.name)}]") or change.after is None:
            continue
        for approver in rule.approvers:
            if approver.tenant_role and f"tenantRole {approver.tenant_role}" in change.after:
                who = f"every {_WHO[approver.tenant_role]} of a tenant approves these files of it"
                yield f"{who}, and so who its members are" if matches(rule.path, _MEMBERS) else who


def _of_gone(change: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    """Yield who approves the files of a rule that goes: the approvers of the most specific pattern that matches all of them.
    What a narrower one matches is that one's, before and afterwards."""
    removed_path = change.field.removeprefix(_RULE).removesuffix("]")
    if change.field != f"{_RULE}{removed_path}]" or change.after is not None:
        return
    covering_rule: PathRule | None = None
    for rule in spec.paths:
        if covers(rule.path, removed_path) and (covering_rule is None or covers(covering_rule.path, rule.path)):
            covering_rule = rule
    if covering_rule is None:
        yield f"no other pattern matches its files: team {PLATFORM_TEAM} approves them"
        return
    who = [_words(each) for each in covering_rule.approvers]
    verb = "approves" if len(who) == 1 else "approve"
    yield f"{printable(covering_rule.path, WHOLE.name)} takes its files: {' or '.join(who)} {verb} them"


def _words(approver: Approver) -> str:
    return (
        f"tenantRole {approver.tenant_role}"
        if approver.tenant_role
        else f"team {approver.team}"
        if approver.team
        else f"login {approver.login}"
    )
