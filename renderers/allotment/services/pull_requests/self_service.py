"""Reads the policy for a merge without a second person from the base of a pull request.

The policy, the tariff plan of the tenant and the Ownership come from the base, because the pull request itself may change them.
"""

from __future__ import annotations

from collections.abc import Collection

from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.tree_comparison import ChangedFile
from allotment.branches.platform_settings import read_tenant
from allotment.declared.approvers import find_excluded_parts, tenant_of
from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds import KINDS
from allotment.declared.kinds.ownership import Ownership
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.platform import Platform
from allotment.diff.self_service import SelfServiceFacts, classify_change
from allotment.problems import Problem
from allotment.services.pull_requests.authorization import build_file_change


def read_self_service_facts(
    base: CommitSource,
    after: TreeSource,
    platform: ScopeDeclarations,
    changed: Collection[ChangedFile],
    unauthorized: Collection[Problem] | None,
) -> SelfServiceFacts | None:
    """Return the facts for a change; None if the base declares no self service.

    `platform` has the platform's declarations at the base. `unauthorized` are the problems of the change if nobody approves it;
    None if its author is unknown.
    """
    settings, ownership = platform.get_singleton(Platform), platform.get_singleton(Ownership)
    if settings is None or settings.model.spec.self_service == "Disabled":
        return None
    changes = {each.path: build_file_change(base, after, each, KINDS) for each in changed}
    classes = {path: classify_change(change) for path, change in changes.items()}
    tenants = sorted({tenant_of(path) for path, kinds in classes.items() if kinds})
    tenant = read_tenant(base, tenants[0]) if len(tenants) == 1 else None
    plan = platform.of_kind(Plan).get(tenant.spec.plan) if tenant else None
    approvals = [f"{problem.path}: {problem.message}" for problem in unauthorized or ()]
    if ownership is None:
        approvals.append("the base declares no Ownership, so nobody owns a file")
    return SelfServiceFacts(
        tenants=tuple(tenants),
        lifecycle=tenant.spec.lifecycle if tenant else "",
        plan=tenant.spec.plan if tenant else "",
        policy=plan.model.spec.self_service if plan else None,
        changes=tuple(sorted({change for kinds in classes.values() for change in kinds})),
        other_paths=tuple(sorted(path for path, kinds in classes.items() if not kinds)),
        excluded=tuple(
            part
            for change in changes.values()
            if ownership
            for part in find_excluded_parts(ownership.model.spec, change.path, change.kind, change.before, change.after)
        ),
        approvals=tuple(approvals),
        is_reviewed=unauthorized is not None,
    )
