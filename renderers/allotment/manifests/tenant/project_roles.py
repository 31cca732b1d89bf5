"""Members → the roles of a tenant's AppProject: who sees its Applications in Argo CD's dashboard, and who reads its
logs.

A role of a project can never reach beyond that project, whatever its policies say, so that tenants see nothing of each
other as long as Argo CD's own policies give nothing by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.kinds.members import Members

GET_APPLICATIONS = ("applications", "get")
GET_LOGS = ("logs", "get")
CREATE_EXEC = ("exec", "create")
INSTANCES_PART = "compute"  # the part of a tenant that its instances are, and so the end of an Application's name
# Nobody syncs, changes or deletes there: that is what merges are for. A terminal is one of an instance: in a preparation it
# could read the keys that this fetches with, and write what nobody reviewed.
GRANTS_BY_ROLE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "Admin": (GET_APPLICATIONS, GET_LOGS, CREATE_EXEC),
    "Member": (GET_APPLICATIONS, GET_LOGS, CREATE_EXEC),
    "Viewer": (GET_APPLICATIONS,),
}


def list_policies(project: str, role: str) -> list[str]:
    """Return what a role may do in its project, as Argo CD's policies."""
    return [
        _build_policy(project, role, grant, "" if grant != CREATE_EXEC else INSTANCES_PART)
        for grant in GRANTS_BY_ROLE[role]
    ]


def list_earlier_policies(project: str, role: str) -> list[str]:
    """Return what a role could do in its project as it was published once: Argo CD showed no pod then."""
    return [_build_policy(project, role, grant, "") for grant in GRANTS_BY_ROLE[role]]


def _build_policy(project: str, role: str, grant: tuple[str, str], part: str) -> str:
    target = f"{project}/{project}--{part}" if part else f"{project}/*"
    return f"p, proj:{project}:{role.lower()}, {', '.join(grant)}, {target}, allow"


def render(project: str, tenant: ScopeDeclarations) -> list[dict[str, Any]]:
    """Return the roles that somebody has. To Argo CD a person's `sub` and a group's name are the same kind of subject."""
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
