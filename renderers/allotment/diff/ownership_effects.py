"""Describe the effect of a changed Ownership: the files and fields that new approvers can approve."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.approvers import PLATFORM_TEAM, is_wider, matches
from allotment.declared.kinds.members import Role
from allotment.declared.kinds.ownership import Approver, OwnershipSpec, PathRule
from allotment.diff.field_diff import UNTRUNCATED, FieldChange
from allotment.problems import escape_unprintable

MAX_NAMED_APPROVALS = 4  # a note names at most this many patterns and fields
_ROLE_TEXT: dict[Role, str] = {"Viewer": "Viewer, Member and Admin", "Member": "Member and Admin", "Admin": "Admin"}
_RULE_FIELD_PREFIX = "spec.paths["
_MEMBERS_PATH = "tenants/any/members.yaml"


def describe_ownership_effect(change: FieldChange, spec: OwnershipSpec) -> str:
    """Return the effect of a changed field on approvals; empty if the effect is obvious from the field.

    `spec` is the spec of the new Ownership.
    """
    return next(
        iter((*_team_effect(change, spec), *_role_rule_effect(change, spec), *_removed_rule_effect(change, spec))), ""
    )


def _team_effect(change: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    for team in spec.teams:
        if (
            change.field.startswith(f"spec.teams[{escape_unprintable(team.name, UNTRUNCATED.name_length)}]")
            and change.after is not None
        ):
            approvals = list(_team_approvals(spec, team.name))
            more = f" and {len(approvals) - MAX_NAMED_APPROVALS} more" if len(approvals) > MAX_NAMED_APPROVALS else ""
            yield f"team {team.name} approves {', '.join(approvals[:MAX_NAMED_APPROVALS]) or 'nothing'}{more}"


def _team_approvals(spec: OwnershipSpec, team: str) -> Iterator[str]:
    """Yield the patterns of the paths that a team approves, then the fields that it approves."""
    if team == PLATFORM_TEAM:
        yield "all files that match no pattern"
    yield from (rule.path for rule in spec.paths if any(approver.team == team for approver in rule.approvers))
    yield from (
        f"{rule.field} of {rule.kind}"
        for rule in spec.fields
        if any(approver.team == team for approver in rule.approvers)
    )


def _role_rule_effect(change: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    """Yield the effect of a rule that newly lets members with a role in a tenant approve the tenant's files."""
    for rule in spec.paths:
        if (
            not change.field.startswith(f"spec.paths[{escape_unprintable(rule.path, UNTRUNCATED.name_length)}]")
            or change.after is None
        ):
            continue
        for approver in rule.approvers:
            if approver.tenant_role and f"tenantRole {approver.tenant_role}" in change.after:
                who = f"every {_ROLE_TEXT[approver.tenant_role]} of a tenant approves these files of the tenant"
                yield f"{who}, including its list of members" if matches(rule.path, _MEMBERS_PATH) else who


def _removed_rule_effect(change: FieldChange, spec: OwnershipSpec) -> Iterator[str]:
    """Yield the new approvers of the files that a removed rule matched.

    The new approvers come from the most specific remaining pattern that matches all these files. Files that also match
    a narrower pattern than the removed pattern keep their approvers.
    """
    removed_path = change.field.removeprefix(_RULE_FIELD_PREFIX).removesuffix("]")
    if change.field != f"{_RULE_FIELD_PREFIX}{removed_path}]" or change.after is not None:
        return
    covering_rule: PathRule | None = None
    for rule in spec.paths:
        if is_wider(rule.path, removed_path) and (covering_rule is None or is_wider(covering_rule.path, rule.path)):
            covering_rule = rule
    if covering_rule is None:
        yield f"no other pattern matches its files: team {PLATFORM_TEAM} approves them"
        return
    who = [_approver_text(each) for each in covering_rule.approvers]
    verb = "approves" if len(who) == 1 else "approve"
    yield f"{escape_unprintable(covering_rule.path, UNTRUNCATED.name_length)} takes its files: {' or '.join(who)} {verb} them"


def _approver_text(approver: Approver) -> str:
    return (
        f"tenantRole {approver.tenant_role}"
        if approver.tenant_role
        else f"team {approver.team}"
        if approver.team
        else f"login {approver.login}"
    )
