"""Render a tenant's members as roles of its AppProject, which grant access to Applications, logs and terminals.

A role of a project grants access to that project only, even if its policies name other projects. Tenants therefore
cannot see each other, unless Argo CD's own default policy grants access.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.members import Members

GET_APPLICATIONS = ("applications", "get")
GET_LOGS = ("logs", "get")
CREATE_EXEC = ("exec", "create")
# The part of a tenant's tree that has the instances. The name of the Application of this part ends with `compute`.
INSTANCES_PART = "compute"
# No role may sync, change or delete anything in Argo CD, because people change resources by pull request. Terminals
# open in instances only. In the pod of a preparation Job, a user could read the keys for the download, and write data
# that nobody reviewed.
GRANTS_BY_ROLE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Admin": (GET_APPLICATIONS, GET_LOGS, CREATE_EXEC),
    "Member": (GET_APPLICATIONS, GET_LOGS, CREATE_EXEC),
    "Viewer": (GET_APPLICATIONS,),
}


def list_policies(project: str, role: str) -> list[str]:
    """Return a role's permissions in its project, in the syntax of Argo CD's policies."""
    return [
        _build_policy(project, role, grant, "" if grant != CREATE_EXEC else INSTANCES_PART)
        for grant in GRANTS_BY_ROLE[role]
    ]


def list_earlier_policies(project: str, role: str) -> list[str]:
    """Return a role's permissions as older versions published them: for all Applications of the project."""
    return [_build_policy(project, role, grant, "") for grant in GRANTS_BY_ROLE[role]]


def _build_policy(project: str, role: str, grant: tuple[str, str], part: str) -> str:
    target = f"{project}/{project}--{part}" if part else f"{project}/*"
    return f"p, proj:{project}:{role.lower()}, {', '.join(grant)}, {target}, allow"


def render(project: str, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the roles that have members.

    A role lists the `sub` of each user and the name of each group together, because Argo CD does not distinguish them.
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
