"""Adds people and groups to tenants, and removes them: the edits of `allot member`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from allotment.declared.document_editor import AddItem, RemoveField, edit_document
from allotment.declared.kinds.members import Group, Members, MembersSpec, Role, User
from allotment.declared.layout import Scope, path_of
from allotment.declared.reading import suggest_name
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.new_declaration import build_declaration, check_declaration
from allotment.manifests.yaml_text import without_empty
from allotment.problems import OperationRefused, quote_value


class NewMember(NamedTuple):
    """A person, or a group of the identity provider, that becomes a member. A group has a name and a role only."""

    name: str
    role: Role
    login: str | None = None
    subject: str | None = None
    ssh_keys: tuple[str, ...] = ()
    is_group: bool = False

    @property
    def list_name(self) -> str:
        """The list of Members that has the member."""
        return "groups" if self.is_group else "users"

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the entry in Members. A key loses its comment, because it often is an e-mail address."""
        keys = [" ".join(key.split(maxsplit=2)[:2]) if "PRIVATE" not in key else key for key in self.ssh_keys]
        identity = {"login": self.login, "subject": self.subject, "sshKeys": keys}
        return without_empty({"name": self.name, "role": self.role} | identity)


def build_members(path: str, members: Sequence[NewMember]) -> bytes:
    """Return a new file of Members. Raises InvalidField if a field is invalid."""
    spec: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        spec.setdefault(member.list_name, []).append(member.fields)
    return check_declaration(path, build_declaration(path, spec))


def add_member(declarations: Declarations, tenant: str, member: NewMember) -> ChangeSet:
    """Return the change that adds a person or a group to a tenant, and creates the file of members if it is absent.

    Raises OperationRefused if the tenant is not declared, if it has the member already, or if a field is invalid.
    """
    scope = Scope("tenant", tenant)
    declarations.check_scope(scope)
    path = path_of(Members.__name__, scope, tenant)
    if declarations.read(path) is None:
        data = build_members(path, [member])
    else:
        declared = declarations.find(Members, scope, tenant)
        existing = _find_entry(declared.model.spec, member.name, is_group=member.is_group)
        if existing is not None:
            key = f"{member.list_name}.{member.name}"
            raise OperationRefused(
                f"{tenant} has a {_noun(member.is_group)} {quote_value(member.name)} already, with the role {existing.role}:"
                f" change its fields by `allot set`, such as `allot set Members/{tenant} {key}.role={member.role}`"
            )
        edit = AddItem(("spec", member.list_name), member.fields)
        data = check_declaration(path, edit_document(declared.data, Members, [edit]))
    notes = list_member_notes(member)
    return ChangeSet(f"Add {member.name} to {tenant} as {member.role}", {path: data}, (f"Members {tenant}",), notes)


def remove_member(declarations: Declarations, tenant: str, name: str, *, is_group: bool = False) -> ChangeSet:
    """Return the change that removes a person or a group from a tenant.

    Raises OperationRefused if the tenant has no such member, or if the tenant would have neither an Admin nor a group of
    Admins.
    """
    declared = declarations.find(Members, Scope("tenant", tenant), tenant)
    spec = declared.model.spec
    if _find_entry(spec, name, is_group=is_group) is None:
        names = [entry.name for entry in (spec.groups if is_group else spec.users)]
        hint = suggest_name(name, names) or f"; it has no {_noun(is_group)}s"
        raise OperationRefused(f"{tenant} has no {_noun(is_group)} {quote_value(name)}{hint}")
    admins = [(admin.name, isinstance(admin, Group)) for admin in spec.admins]
    if admins == [(name, is_group)]:
        raise OperationRefused(f"{quote_value(name)} is the last Admin of {tenant}: add another Admin first")
    edit = RemoveField(("spec", "groups" if is_group else "users", name))
    data = check_declaration(declared.path, edit_document(declared.data, Members, [edit]))
    return ChangeSet(f"Remove {name} from {tenant}", {declared.path: data}, (f"Members {tenant}",))


def _find_entry(spec: MembersSpec, name: str, *, is_group: bool) -> Group | User | None:
    entries: Sequence[Group | User] = spec.groups if is_group else spec.users
    return next((entry for entry in entries if entry.name == name), None)


def _noun(is_group: bool) -> str:
    return "group" if is_group else "user"


def list_member_notes(member: NewMember) -> tuple[str, ...]:
    """Return a note if a new member can't log in without a group, otherwise nothing."""
    if member.is_group or member.subject:
        return ()
    return (f"{member.name} has no subject, and can open a Members port only as a member of a group of the tenant.",)
