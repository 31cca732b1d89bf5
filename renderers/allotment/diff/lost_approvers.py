"""Find files of a tenant that no member can approve any more, according to the Ownership and the tenant's members."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.approvers import accounts_of, find_path_rule
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.ownership import Ownership, PathRule
from allotment.declared.layout import path_of
from allotment.declared.people import Account
from allotment.declared.tenant_resources import RESOURCE_KINDS
from allotment.diff.declared_change import DeclaredChange
from allotment.diff.tenant_side import TenantSide


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
        (_, was), (rule, is_now) = _approvers(before, path), _approvers(after, path)
        if rule is None or rule.path in reported_paths or not was or is_now or not _has_only_role_approvers(rule):
            continue
        reported_paths.add(rule.path)
        who = ", ".join(sorted(map(str, was)))
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
