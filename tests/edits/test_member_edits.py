"""`member_edits` writes exactly the entry of a member, and keeps an Admin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.declared.kinds.members import Role
from allotment.edits.declarations import Declarations
from allotment.edits.member_edits import NewMember, add_member, remove_member
from allotment.edits.new_declaration import InvalidField
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFP1kA1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"
ADA, KITE = "tenants/solo-ada/members.yaml", "tenants/studio-kite/members.yaml"


def declared(root: Path = PROJECT) -> Declarations:
    return open_declarations(FolderSource(root))


def test_a_person_is_added_after_the_others_without_the_comment_of_a_key() -> None:
    member = NewMember("ben", "Member", "ben-k#4712", "00u1ben", (f"{KEY} ben@home.example",))
    change = add_member(declared(), "solo-ada", member)
    entry = f"""\
    - name: ben
      role: Member
      login: "ben-k#4712"
      subject: "00u1ben"
      sshKeys:
        - {KEY}
"""
    assert change.files == {ADA: (PROJECT / ADA).read_bytes() + entry.encode()}
    assert (change.title, change.resources, change.notes) == (
        "Add ben to solo-ada as Member",
        ("Members solo-ada",),
        (),
    )


def test_a_group_is_added_in_the_order_of_names() -> None:
    change = add_member(declared(), "studio-kite", NewMember("kite-guests", "Viewer", is_group=True))
    before = (PROJECT / KITE).read_text(encoding="utf-8")
    new = "    - name: kite-guests\n      role: Viewer\n    - name: kite-leads\n"
    assert change.files == {KITE: before.replace("    - name: kite-leads\n", new).encode()}
    assert change.notes == ()


def test_the_first_member_creates_the_file(sample: Path) -> None:
    (sample / ADA).unlink()
    change = add_member(declared(sample), "solo-ada", NewMember("ada", "Admin", "ada-k"))
    text = """\
# yaml-language-server: $schema=../../schemas/Members.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Members
metadata:
  name: solo-ada
spec:
  users:
    - name: ada
      role: Admin
      login: ada-k
"""
    assert change.files == {ADA: text.encode()}
    assert change.notes == (
        "ada has no subject, and can open a Members port only as a member of a group of the tenant.",
    )


@pytest.mark.parametrize(
    ("tenant", "member", "message"),
    [
        ("solo-ad", NewMember("ben", "Member"), "no tenant is named 'solo-ad'; did you mean 'solo-ada'?"),
        (
            "solo-ada",
            NewMember("ada", "Viewer"),
            "solo-ada has a user 'ada' already, with the role Admin: change its fields by `allot set`, such as `allot set Members/solo-ada users.ada.role=Viewer`",
        ),
    ],
)
def test_a_wrong_tenant_and_a_second_entry_are_refused(tenant: str, member: NewMember, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}$"):
        add_member(declared(), tenant, member)


@pytest.mark.parametrize(
    ("member", "field"),
    [
        (NewMember("Ben", "Member"), "spec.users[0].name"),
        (NewMember("ben", "Member", login="a b"), "spec.users[1].login"),
        (NewMember("ben", "Member", subject="a b"), "spec.users[1].subject"),
        (NewMember("ben", "Member", ssh_keys=("ssh-rsa AAAA",)), "spec.users[1].sshKeys[0]"),
        (NewMember("a*", "Viewer", is_group=True), "spec.groups[0].name"),
    ],
)
def test_an_invalid_value_names_its_field(member: NewMember, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        add_member(declared(), "solo-ada", member)
    assert refused.value.field == field


def test_a_member_is_removed_with_its_lines_only() -> None:
    change = remove_member(declared(), "studio-kite", "kite-clients", is_group=True)
    before = (PROJECT / KITE).read_text(encoding="utf-8")
    assert change.files == {KITE: before.replace("    - name: kite-clients\n      role: Viewer\n", "").encode()}
    assert change.title == "Remove kite-clients from studio-kite"


def test_the_list_of_the_last_user_disappears_if_a_group_has_an_admin() -> None:
    change = remove_member(declared(), "ml-orbit", "noor")
    (text,) = change.files.values()
    assert text is not None
    assert text.decode().endswith("    - name: orbit-ml\n      role: Member\n")


@pytest.mark.parametrize(
    ("tenant", "name", "is_group", "message"),
    [
        ("solo-ada", "ada", False, "'ada' is the last Admin of solo-ada: add another Admin first"),
        ("uni-lab", "uni-staff", True, "'uni-staff' is the last Admin of uni-lab: add another Admin first"),
        ("studio-kite", "mi", False, "studio-kite has no user 'mi'; did you mean 'mio'?"),
        ("solo-ada", "ada", True, "solo-ada has no group 'ada'; it has no groups"),
        ("solo-ad", "ada", False, "no tenant is named 'solo-ad'; did you mean 'solo-ada'?"),
    ],
)
def test_the_last_admin_and_an_unknown_member_stay(tenant: str, name: str, is_group: bool, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}$"):
        remove_member(declared(), tenant, name, is_group=is_group)


@pytest.mark.parametrize("role", ["Member", "Viewer"])
def test_the_admin_can_go_once_another_member_is_admin(role: Role) -> None:
    declarations = declared()
    (data,) = add_member(declarations, "solo-ada", NewMember("eve", "Admin")).files.values()
    changed = declarations._replace(read=lambda path: data if path == ADA else declarations.read(path))
    assert remove_member(changed, "solo-ada", "ada").files
    (data,) = add_member(declarations, "solo-ada", NewMember("eve", role)).files.values()
    changed = declarations._replace(read=lambda path: data if path == ADA else declarations.read(path))
    with pytest.raises(OperationRefused, match="is the last Admin"):
        remove_member(changed, "solo-ada", "ada")
