"""Describes whether the change of a form can merge by itself, or why it waits for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from allotment.declared.approvers import find_excluded_parts, find_path_rule
from allotment.declared.kinds.app import App
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.members import Role
from allotment.declared.kinds.ownership import Ownership
from allotment.declared.kinds.plan import SelfService, SelfServiceChange
from allotment.declared.layout import DeclarationPath, parse_path
from allotment.portal.pages.page_action import Action
from allotment.portal.pages.tenant_area import TenantArea
from allotment.rules.unsaved_folders import find_unsaved_folders

_ROLE_TEXT: dict[Role, str] = {"Viewer": "a member", "Member": "a Member or Admin", "Admin": "an Admin"}


def describe_merge(area: TenantArea, change: SelfServiceChange | None, path: str, reason: str = "") -> dict[str, Any]:
    """Return the facts about the merge of a change. The verdict is empty if only the cost can make the change wait for a person.

    `path` is the file that changes. `reason` is why the change always waits; empty for other changes.
    """
    policy = area.allowance.self_service
    if policy is None:
        return {
            "verdict": f"A person with the right to merge merges it.{_describe_approvers(area, path)}",
            "costLimit": None,
        }
    reasons = [reason] if reason else []
    # Access comes with the kind of the changed field.
    kinds = ("Change", "Access") if change == "Access" else (change,) if change is not None else ()
    if unlisted := [kind for kind in kinds if kind not in policy.changes]:
        reasons.insert(0, f"the tariff plan {area.plan} doesn't list {', '.join(unlisted)}")
    reasons += _list_barriers(area, path)
    verdict = f"This change waits for a merge by a person: {reasons[0]}." if reasons else ""
    if not reasons and (doubt := next(_list_doubts(area, policy, change, path), "")):
        verdict = f"The plan says whether this change can merge by itself: {doubt}."
    return {
        "verdict": verdict,
        "costLimit": None if policy.max_monthly_cost is None else str(policy.max_monthly_cost),
    }


def _describe_approvers(area: TenantArea, path: str) -> str:
    """Return a sentence about the approvers of a file; empty if the Ownership has no rule."""
    ownership = area.allowance.catalog.platform.get_singleton(Ownership)
    rule = find_path_rule(ownership.model.spec, path) if ownership is not None else None
    if rule is None:
        return ""
    names = [
        f"{_ROLE_TEXT[approver.tenant_role]} of {area.name}" if approver.tenant_role else str(approver)
        for approver in rule.approvers
    ]
    return f" It needs {' or '.join(names)} as its author, or as an approver."


def _list_barriers(area: TenantArea, path: str) -> Iterator[str]:
    """Yield the reasons why no change of a file of the tenant merges by itself."""
    if area.lifecycle != "Active":
        yield f"the tenant is {area.lifecycle}"
    ownership = area.allowance.catalog.platform.get_singleton(Ownership)
    if ownership is None:
        yield "the platform declares no Ownership, so nobody owns a file"
    elif list(find_excluded_parts(ownership.model.spec, path, "", None, None)):
        yield "the Ownership excludes its file from self service"
    declared_path = parse_path(path)
    if isinstance(declared_path, DeclarationPath) and declared_path.kind.model is GPUInstance:
        instance = area.allowance.declarations.of_kind(GPUInstance).get(declared_path.name)
        is_running = instance is not None and instance.model.spec.state == "Running"
        if instance is not None and is_running and find_unsaved_folders(area.allowance.catalog, instance.model):
            yield "it erases folders of the app that are on no storage"


def _list_doubts(area: TenantArea, policy: SelfService, change: SelfServiceChange | None, path: str) -> Iterator[str]:
    """Yield the reasons why some changes of a file of the tenant wait, and others do not."""
    declared_path, platform = parse_path(path), area.allowance.catalog.platform
    kind = declared_path.kind.name if isinstance(declared_path, DeclarationPath) else ""
    ownership = platform.get_singleton(Ownership)
    for rule in ownership.model.spec.fields if ownership is not None else ():
        if (rule.kind, rule.self_service) == (kind, "Disabled"):
            yield f"the Ownership excludes {rule.field}"
    versions = (version for app in platform.of_kind(App).values() for version in app.model.spec.versions)
    is_new_instance = (change, kind) == ("Create", GPUInstance.__name__)
    has_public_app = any(port.exposure == "Public" for version in versions for port in version.container.ports)
    if is_new_instance and has_public_app and "Access" not in policy.changes:
        yield "an app with a public page needs Access"


def add_actions(area: TenantArea, facts: dict[str, Any], actions: Sequence[Action]) -> dict[str, Any]:
    """Return the facts of a form with its changes."""
    described = {
        action.name: action.describe()
        | describe_merge(area, action.change, action.new_path or facts.get("path", ""), action.waiting_reason)
        for action in actions
    }
    return facts | {"actions": described}
