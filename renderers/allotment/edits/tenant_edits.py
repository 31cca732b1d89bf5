"""Creates tenants with their first Admin, and changes their lifecycle: the edits of `allot tenant`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from allotment.declared.document_editor import set_enum_field
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.plan import Plan
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import PLATFORM, Scope, path_of
from allotment.edits.change_set import ChangeSet, merge_change_sets
from allotment.edits.declarations import Declarations
from allotment.edits.input_rows import Columns, InputFile, InputRow
from allotment.edits.member_edits import NewMember, build_members, list_member_notes
from allotment.edits.new_declaration import build_declaration, check_declaration
from allotment.edits.option_values import OptionParser
from allotment.edits.row_changes import build_row_changes
from allotment.manifests.yaml_text import without_empty
from allotment.problems import OperationRefused

_COLUMNS_BY_FIELD = {
    "metadata.labels": "label",
    "spec.displayName": "display-name",
    "spec.description": "description",
    "spec.plan": "plan",
    "spec.users[].name": "admin",
    "spec.users[].login": "login",
    "spec.users[].subject": "subject",
    "spec.groups[].name": "admin-group",
}
COLUMNS = Columns(("name", *_COLUMNS_BY_FIELD.values()), ("name",), ("label",))
TenantLifecycle = Literal["Active", "Suspended", "Retired"]
_VERBS: dict[TenantLifecycle, str] = {"Active": "Resume", "Suspended": "Suspend", "Retired": "Retire"}
_NOTES: dict[TenantLifecycle, str] = {
    "Suspended": "`allot tenant resume` starts the instances again. Their disks are erased, the storages stay.",
    "Retired": "This is the first of two merges. It needs `deletionPolicy: Delete` in all storages and snapshots of the tenant."
    " After its publish, the second merge deletes the folder of the tenant.",
}


def create_tenant(
    declarations: Declarations,
    name: str,
    spec: Mapping[str, Any],
    labels: Mapping[str, str],
    admins: Sequence[NewMember],
) -> ChangeSet:
    """Return the change that declares a tenant with its members. `spec` has the fields of the Tenant.

    Raises OperationRefused if the tenant exists, or if a field is invalid, or if its plan is not declared.
    """
    path, scope = declarations.create_path(Tenant, Scope("tenant", name), name), Scope("tenant", name)
    tenant = check_declaration(path, build_declaration(path, dict(spec), labels))
    declarations.find(Plan, PLATFORM, spec["plan"])
    members_path = path_of(Members.__name__, scope, name)
    if declarations.read(members_path) is not None:
        raise OperationRefused(f"{members_path} exists already: delete it first")
    files = {path: tenant, members_path: build_members(members_path, admins)}
    notes = tuple(note for admin in admins for note in list_member_notes(admin))
    return ChangeSet(f"Create tenant {name}", files, (f"Members {name}", f"Tenant {name}"), notes)


def create_tenants(declarations: Declarations, file: InputFile, plan: str = "") -> ChangeSet:
    """Return the change that declares the tenants of a file. `plan` is the plan of the rows that have none.

    Raises OperationRefused with the problems of all rows, each with its line.
    """
    return build_row_changes(
        file, lambda row: _create_row(declarations, row, plan), _COLUMNS_BY_FIELD, ("Create", "tenant")
    )


def _create_row(declarations: Declarations, row: InputRow, plan: str) -> ChangeSet:
    values = {"plan": plan} | row.values
    parser = OptionParser()
    labels = parser.parse_pairs("label", row.lists.get("label", ()))
    admins = []
    if admin := values.get("admin"):
        admins.append(NewMember(admin, "Admin", values.get("login"), values.get("subject")))
    elif "login" in values or "subject" in values:
        parser.problems.append("login and subject belong to a person: write a name such as ada in admin")
    if group := values.get("admin-group"):
        admins.append(NewMember(group, "Admin", is_group=True))
    if not admins:
        parser.problems.append("no value for admin or admin-group: write one of them")
    if not values["plan"]:
        parser.problems.append("no value for plan: write it, or add --plan")
    parser.raise_problems()
    keys = {"displayName": "display-name", "description": "description", "plan": "plan"}
    spec = without_empty({field: values.get(column) for field, column in keys.items()})
    return create_tenant(declarations, values["name"], spec, labels, admins)


def set_tenant_lifecycles(declarations: Declarations, names: Sequence[str], lifecycle: TenantLifecycle) -> ChangeSet:
    """Return the change that suspends, resumes or retires tenants. Raises OperationRefused if a tenant is not declared.

    `Active` is the default, so a resumed tenant has no field.
    """
    changes = [_set_lifecycle(declarations, name, lifecycle) for name in dict.fromkeys(names)]
    return merge_change_sets(changes, f"{_VERBS[lifecycle]} {len(changes)} tenants")


def _set_lifecycle(declarations: Declarations, name: str, lifecycle: TenantLifecycle) -> ChangeSet:
    declared = declarations.find(Tenant, Scope("tenant", name), name)
    data = set_enum_field(declared, "lifecycle", lifecycle, "Active")
    notes = (_NOTES[lifecycle],) if lifecycle in _NOTES else ()
    return ChangeSet(f"{_VERBS[lifecycle]} tenant {name}", {declared.path: data}, (f"Tenant {name}",), notes)
