"""`tenant_edits` writes the two files of a tenant, and exactly the line of its lifecycle."""

from __future__ import annotations

import re

import pytest
from tests.conftest import PROJECT

from allotment.adapters.folder_source import FolderSource
from allotment.edits.member_edits import NewMember
from allotment.edits.new_declaration import InvalidField
from allotment.edits.tenant_edits import TenantLifecycle, create_tenant, set_tenant_lifecycles
from allotment.problems import OperationRefused
from allotment.services.changes.declared_files import open_declarations

DECLARED = open_declarations(FolderSource(PROJECT))
FAY = NewMember("fay", "Admin", "fay-b#5150", "00u1fay")


def test_a_tenant_gets_its_files() -> None:
    spec = {"displayName": "Blue Fox", "plan": "starter"}
    admins = [FAY, NewMember("fox-leads", "Admin", is_group=True)]
    change = create_tenant(DECLARED, "blue-fox", spec, {"costs": "4711"}, admins)
    tenant = """\
# yaml-language-server: $schema=../../schemas/Tenant.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata:
  name: blue-fox
  labels:
    costs: "4711"
spec:
  displayName: Blue Fox
  plan: starter
"""
    members = """\
# yaml-language-server: $schema=../../schemas/Members.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Members
metadata:
  name: blue-fox
spec:
  groups:
    - name: fox-leads
      role: Admin
  users:
    - name: fay
      role: Admin
      login: "fay-b#5150"
      subject: "00u1fay"
"""
    assert change.files == {
        "tenants/blue-fox/tenant.yaml": tenant.encode(),
        "tenants/blue-fox/members.yaml": members.encode(),
    }
    assert change.title == "Create tenant blue-fox"
    assert change.resources == ("Members blue-fox", "Tenant blue-fox")
    assert change.notes == ()


def test_an_admin_without_a_subject_gets_a_note() -> None:
    change = create_tenant(DECLARED, "blue-fox", {"plan": "starter"}, {}, [NewMember("zed", "Admin")])
    assert change.notes == (
        "zed has no subject, and can open a Members port only as a member of a group of the tenant.",
    )


@pytest.mark.parametrize(
    ("name", "plan", "message"),
    [
        ("solo-ada", "starter", "tenants/solo-ada/tenant.yaml exists already: choose another name, or change the file"),
        ("Blue", "starter", "name 'Blue' is not allowed: write a-z, 0-9 and single '-'"),
        ("allotment", "starter", "tenant name 'allotment' is reserved for the platform's own objects in Argo CD"),
        ("blue-fox", "stater", "the platform has no Plan named 'stater'; did you mean 'starter'?"),
    ],
)
def test_a_wrong_name_or_plan_is_refused(name: str, plan: str, message: str) -> None:
    with pytest.raises(OperationRefused, match=f"^{re.escape(message)}"):
        create_tenant(DECLARED, name, {"plan": plan}, {}, [FAY])


def test_an_invalid_value_names_its_field() -> None:
    for spec, labels, admin, field in (
        ({"plan": "starter", "displayName": "x" * 101}, {}, FAY, "spec.displayName"),
        ({"plan": "starter"}, {"a/b": "c"}, FAY, "metadata.labels"),
        ({"plan": "starter"}, {}, FAY._replace(login="a b"), "spec.users[0].login"),
    ):
        with pytest.raises(InvalidField) as refused:
            create_tenant(DECLARED, "blue-fox", spec, labels, [admin])
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("lifecycle", "title"), [("Suspended", "Suspend tenant solo-ada"), ("Retired", "Retire tenant solo-ada")]
)
def test_a_lifecycle_is_one_line_that_resume_removes(lifecycle: TenantLifecycle, title: str) -> None:
    path = "tenants/solo-ada/tenant.yaml"
    before = (PROJECT / path).read_bytes()
    change = set_tenant_lifecycles(DECLARED, ["solo-ada", "solo-ada"], lifecycle)
    assert change.files == {path: before + f"  lifecycle: {lifecycle}\n".encode()}
    assert (change.title, len(change.notes)) == (title, 1)
    changed = DECLARED._replace(read=lambda path: change.files.get(path) or DECLARED.read(path))
    resumed = set_tenant_lifecycles(changed, ["solo-ada"], "Active")
    assert (resumed.title, resumed.files, resumed.notes) == ("Resume tenant solo-ada", {path: before}, ())


def test_several_tenants_are_one_change_or_none() -> None:
    change = set_tenant_lifecycles(DECLARED, ["solo-ada", "uni-lab"], "Suspended")
    assert (change.title, len(change.files)) == ("Suspend 2 tenants", 2)
    with pytest.raises(OperationRefused, match=r"^no tenant is named 'uni-la'; did you mean 'uni-lab'\?$"):
        set_tenant_lifecycles(DECLARED, ["solo-ada", "uni-la"], "Suspended")
