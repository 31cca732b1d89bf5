"""Render a tenant's members as roles of its AppProject: who sees its Applications, logs and terminals in Argo CD.

Argo CD limits a project's role to that project, even if its policies grant more. Tenants therefore cannot see each
other, as long as Argo CD's own policies grant nothing by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.members import Members

GET_APPLICATIONS = ("applications", "get")
GET_LOGS = ("logs", "get")
CREATE_EXEC = ("exec", "create")
INSTANCES_PART = "compute"  # the part of a tenant that holds its instances, and the suffix of that Application's name
# Nobody may sync, change or delete here: people do that by merging. Terminals open in instances only: in a
# preparation, a user could read the keys with which it downloads, and write data that nobody reviewed.
GRANTS_BY_ROLE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Admin": (GET_APPLICATIONS, GET_LOGS, CREATE_EXEC),
    "Member": (GET_APPLICATIONS, GET_LOGS, CREATE_EXEC),
    "Viewer": (GET_APPLICATIONS,),
}


def list_policies(project: str, role: str) -> list[str]:
    """Return a role's permissions in its project, as Argo CD's policies."""
    return [
        _build_policy(project, role, grant, "" if grant != CREATE_EXEC else INSTANCES_PART)
        for grant in GRANTS_BY_ROLE[role]
    ]


def list_earlier_policies(project: str, role: str) -> list[str]:
    """Return a role's permissions in a project that an older version published, before Argo CD showed pods."""
    return [_build_policy(project, role, grant, "") for grant in GRANTS_BY_ROLE[role]]


def _build_policy(project: str, role: str, grant: tuple[str, str], part: str) -> str:
    target = f"{project}/{project}--{part}" if part else f"{project}/*"
    return f"p, proj:{project}:{role.lower()}, {', '.join(grant)}, {target}, allow"


def render(project: str, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the roles that have subjects. Argo CD treats a person's `sub` and a group's name as the same kind of
    subject.
    """
    members = tenant.get_singleton(Members)
    if members is None:
        return []
    spec = members.model.spec
    roles = []
    for role in GRANTS_BY_ROLE:
        groups = [group.name for group in spec.groups if group.role == role]
        people = [user.subject for user in spec.users if user.role == role and user.subject]
        if groups or people:
            subjects = sorted({*groups, *people})
            roles.append({"name": role.lower(), "policies": list_policies(project, role), "groups": subjects})
    return roles
