"""Last Admin: a change leaves an active tenant with an Admin if the tenant has an Admin before the change.

A group with the role Admin counts too. Without an Admin, nobody of the tenant can approve its changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.kinds.members import Members
from allotment.declared.kinds.tenant import Tenant
from allotment.problems import Finding
from allotment.rules.folder_change import FolderChange

RULE = "last-admin"


def check(change: FolderChange) -> Iterator[Finding]:
    """Check that the members of an active tenant still include an Admin. A finding is at the first demoted user."""
    tenant, old = change.after.get_singleton(Tenant), change.before.get_singleton(Members)
    admins = [admin.name for admin in old.model.spec.admins] if old is not None else []
    if tenant is None or tenant.model.spec.lifecycle != "Active" or old is None or not admins:
        return
    message = f"tenant {tenant.model.name} would have no Admin, and {', '.join(admins)} was Admin before: give a user or a group the role Admin"
    new = change.after.get_singleton(Members)
    if new is not None and not new.model.spec.admins:
        users = enumerate(new.model.spec.users)
        field = next((f"spec.users.{index}.role" for index, user in users if user.name in admins), "spec")
        yield new.make_finding(field, message, RULE)
    elif change.after.is_absent(Members, old.model.name):
        yield Finding(old.path, (), message, RULE, related=change.current_paths)
