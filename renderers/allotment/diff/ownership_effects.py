"""Describe how a change affects approvals: the files and fields that new approvers can approve after a change of the Ownership,
and the files that no member of a tenant can approve any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.approvers import PLATFORM_TEAM, accounts_of, find_path_rule, is_wider, matches
from allotment.declared.kinds.members import Members, Role
from allotment.declared.kinds.ownership import Approver, Ownership, OwnershipSpec, PathRule
from allotment.declared.layout import path_of
from allotment.declared.people import Account
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.diff.declared_change import DeclaredChange
from allotment.diff.field_diff import UNTRUNCATED, FieldChange
from allotment.diff.tenant_side import TenantSide
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


def files_without_tenant_approver(before: TenantSide, after: TenantSide) -> Iterator[DeclaredChange]:
    """Yield a change for each path rule of the Ownership if the tenant no longer has an approver by this rule.

    A rule that also names teams or logins is skipped. The change names the former approvers. The team `platform`
    approves the files of the rule instead.
    """
    tenant, members = after.folder.name, path_of("Members", after.folder.scope, "")
    if not before.folder.paths() or not after.folder.paths() or after.folder.invalid:
        return
    reported_paths = set[str]()
    for path in _sample_paths(after):
        (_, old), (rule, new) = _approvers(before, path), _approvers(after, path)
        if rule is None or rule.path in reported_paths or not old or new or not _has_only_role_approvers(rule):
            continue
        reported_paths.add(rule.path)
        who = ", ".join(sorted(map(str, old)))
        note = f"nobody in {tenant} can approve these files any more: team platform approves them"
        yield DeclaredChange("approvals", members, f"approvers by {rule.path}", who, None, note)


def _sample_paths(end: TenantSide) -> list[str]:
    """Return an example of each kind of file that a tenant may have."""
    scope = end.folder.scope
    return [
        path_of(kind, scope, "any")
        for kind in ("Members", "Tenant", *(resource_kind.kind.name for resource_kind in RESOURCE_KINDS.values()))
    ]


def _approvers(end: TenantSide, path: str) -> tuple[PathRule | None, frozenset[Account]]:
    """Return the rule that matches a path, and the accounts of members with at least a role that the rule names."""
    declared, members = end.catalog.platform.get_singleton(Ownership), end.folder.get_singleton(Members)
    rule = find_path_rule(declared.model.spec, path) if declared is not None else None
    roles = [approver.tenant_role for approver in rule.approvers if approver.tenant_role] if rule is not None else []
    people = members.model if members is not None else None
    return rule, frozenset().union(*(accounts_of(people, role) for role in roles))


def _has_only_role_approvers(rule: PathRule) -> bool:
    return all(approver.tenant_role for approver in rule.approvers)
