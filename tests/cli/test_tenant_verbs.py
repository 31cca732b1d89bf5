"""`allot tenant` and `allot member`: their files, and one error with the valid values for a wrong option."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import PROJECT, Allot
from tests.support.published import Place, git
from tests.support.terminal import answer_questions, start_dialogue

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFP1kA1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"
ADA_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP3uQw1AvVfe6sGGzZeQAz0PBvkJqIBufObnF6t8fVAp"
NEW = ("tenant", "create", "blue-fox")
FAY = ("--plan", "starter", "--admin", "fay")
BEN = ("member", "add", "solo-ada", "ben")


def test_a_tenant_is_created_and_committed(place: Place, allot: Allot) -> None:
    words = (*NEW, *FAY, "--login", "fay-b", "--display-name", "Blue Fox", "--description", "Foxes.", "--label", "a=b")
    result = allot(*words, "--commit", "--repo", place.root)
    assert result.code == 0, result
    assert "tenants/blue-fox/tenant.yaml  added: plan starter" in result.out
    assert git(place.root, "show", "--name-only", "--format=%s", "HEAD").split("\n\n") == [
        "Create tenant blue-fox",
        "tenants/blue-fox/members.yaml\ntenants/blue-fox/tenant.yaml",
    ]
    assert (
        (place.root / "tenants/blue-fox/tenant.yaml").read_text()
        == """\
# yaml-language-server: $schema=../../schemas/Tenant.schema.json
apiVersion: allotment.dev/v1alpha1
kind: Tenant
metadata:
  name: blue-fox
  labels:
    a: b
spec:
  displayName: Blue Fox
  description: Foxes.
  plan: starter
"""
    )


def test_a_file_of_tenants_is_one_change(place: Place, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "tenants.csv"
    file.write_text(
        "name,plan,admin,login,subject,admin-group,label\n"
        "blue-fox,,fay,fay-b,00u1fay,,costs=4711;team=a\n"
        "gray-owl,team,,,,owl-leads,\n"
    )
    result = allot(
        "tenant", "create", "--from", file, "--plan", "starter", "--commit", "-o", "json", "--repo", place.root
    )
    assert result.code == 0, result
    answer = json.loads(result.out)
    assert (answer["stage"], answer["title"]) == ("Commit", "Create 2 tenants")
    assert answer["resources"] == ["Members blue-fox", "Members gray-owl", "Tenant blue-fox", "Tenant gray-owl"]
    text = (place.root / "tenants/blue-fox/tenant.yaml").read_text()
    assert text.endswith('  labels:\n    costs: "4711"\n    team: a\nspec:\n  plan: starter\n')
    assert (place.root / "tenants/gray-owl/tenant.yaml").read_text().endswith("spec:\n  plan: team\n")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("blue-fox,gold,fay,,,", "the platform has no Plan named 'gold'"),
        ("blue-fox,,fay,,,", "no value for plan: write it, or add --plan"),
        ("blue-fox,team,,,,", "no value for admin or admin-group: write one of them"),
        ("blue-fox,team,,fay-b,,leads", "login and subject belong to a person: write a name such as ada in admin"),
        ("blue-fox,team,Fay B,,,", "admin: 'Fay B' is not allowed"),
        ("blue-fox,team,fay,fay b,,", "login: 'fay b' is not allowed"),
        ("blue-fox,team,fay,,costs,", "label: 'costs' is not in the format KEY=VALUE"),
        ("solo-ada,team,fay,,,", "tenants/solo-ada/tenant.yaml exists already"),
        ("gray-owl,team,fay,,,", "'gray-owl' is in line 2 already"),
    ],
)
def test_a_wrong_row_creates_no_tenant(row: str, message: str, place: Place, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "tenants.csv"
    file.write_text(f"name,plan,admin,login,label,admin-group\ngray-owl,team,gus,,,\n{row}\n")
    result = allot("tenant", "create", "--from", file, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert f"{file}:3: {message}" in result.err
    assert not (place.root / "tenants/gray-owl").exists()


def test_a_file_excludes_the_options_of_one_tenant(place: Place, allot: Allot, tmp_path: Path) -> None:
    for words, name in ((("blue-fox",), "NAME"), (("--admin", "fay"), "--admin")):
        result = allot("tenant", "create", *words, "--from", tmp_path / "tenants.csv", "--repo", place.root)
        assert result.err.splitlines()[-1] == (
            f"Error: {name}: the rows of --from have the values: omit it, or omit --from"
        )
    result = allot("tenant", "create", "--repo", place.root)
    assert result.err.splitlines()[-1] == "Error: name the tenant: add NAME, or --from FILE to create several tenants"


def test_questions_lead_to_a_tenant(place: Place) -> None:
    child = start_dialogue(place.root, *NEW)
    child.expect(r"2 +starter +3 +500Gi +300\.00\s+1 nvidia-l4")
    output, status = answer_questions(
        child,
        ("Plan (1 to 3) [1]:", "gold"),
        ("Error: 'gold' is no choice: write a number from 1 to 3, or a name", "starter"),
        ("Name of the first Admin:", "Fay B"),
        ("Error: is not allowed: write a-z", "fay"),
        ("Login at the forge (empty: none) []:", "fay b"),
        ("Error: write a login of the forge such as ada-k", "fay-b"),
        ("`sub` of the ID token (empty: none) []:", ""),
        ("Create it? [Y/n]:", ""),
    )
    assert status == 0, output
    assert "fay has no subject, and can open a Members port only as a member of a group of the tenant." in output
    assert (place.root / "tenants/blue-fox/tenant.yaml").read_text().endswith("spec:\n  plan: starter\n")
    members = (place.root / "tenants/blue-fox/members.yaml").read_text()
    assert members.endswith("  users:\n    - name: fay\n      role: Admin\n      login: fay-b\n")


def test_a_group_of_admins_is_not_asked_for_a_person(place: Place) -> None:
    child = start_dialogue(place.root, *NEW, "--admin-group", "foxes", "--yes")
    output, status = answer_questions(child, ("Plan (1 to 3) [1]:", "2"))
    assert status == 0, output
    assert "    - name: foxes\n      role: Admin\n" in (place.root / "tenants/blue-fox/members.yaml").read_text()


def test_a_lifecycle_is_changed_and_reported(place: Place, allot: Allot) -> None:
    path = "tenants/solo-ada/tenant.yaml"
    before = (place.root / path).read_text()
    result = allot("tenant", "suspend", "solo-ada", "--repo", place.root)
    assert result.code == 0, result
    assert "solo-ada  eu-1     instance webui  changed  stops" in result.out
    assert (place.root / path).read_text() == f"{before}  lifecycle: Suspended\n"
    answer = json.loads(allot("tenant", "retire", "solo-ada", "-o", "json", "--repo", place.root).out)
    assert (answer["title"], answer["files"]) == ("Retire tenant solo-ada", [{"path": path, "action": "Changed"}])
    assert allot("tenant", "resume", "solo-ada", "--repo", place.root).code == 0
    assert (place.root / path).read_text() == before


def test_a_key_comes_from_a_file_or_from_the_option(place: Place, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "id_ed25519.pub"
    file.write_text(f"{KEY} ben@home.example\n")
    path = "tenants/solo-ada/members.yaml"
    expected = (PROJECT / path).read_text() + f"    - name: ben\n      role: Member\n      sshKeys:\n        - {KEY}\n"
    for value in (file, f"{KEY} ben@home.example"):
        result = allot(*BEN, "--role", "Member", "--ssh-key", value, "--repo", place.root)
        assert result.code == 0, result
        assert "ben has no subject, and can open a Members port only as a member of a group" in result.out
        assert (place.root / path).read_text() == expected
        git(place.root, "checkout", "-q", ".")


def test_members_are_removed(place: Place, allot: Allot) -> None:
    result = allot("member", "remove", "studio-kite", "kite-clients", "--group", "--commit", "--repo", place.root)
    assert result.code == 0, result
    assert git(place.root, "log", "-1", "--format=%s") == "Remove kite-clients from studio-kite"
    assert git(place.root, "show", "--format=", "--unified=0", "HEAD").splitlines()[5:] == [
        "-    - name: kite-clients",
        "-      role: Viewer",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (NEW, "allot: 2 options missing: add --plan (enterprise, starter, team), --admin (a name such as ada, with "),
        (
            (*NEW, "--plan", "gold", *FAY[2:]),
            "allot: --plan: no Plan is named 'gold'; known: enterprise, starter, team",
        ),
        (("tenant", "create", "Blue", *FAY), "allot: name 'Blue' is not allowed: write a-z, 0-9 and single '-'"),
        (("tenant", "create", "solo-ada", *FAY), "allot: tenants/solo-ada/tenant.yaml exists already: choose another"),
        ((*NEW, "--plan", "team", "--admin", "F!"), "allot: --admin: 'F!' has 2 characters: write at least 3"),
        (
            (*NEW, "--plan", "team", "--admin-group", "f!"),
            "allot: --admin-group: 'f!' is not allowed: write letters, digits, spaces, ",
        ),
        (
            (*NEW, *FAY, "--login", "a b"),
            "allot: --login: 'a b' is not allowed: write a login of the forge such as ada-k",
        ),
        ((*NEW, *FAY, "--subject", "a b"), "allot: --subject: 'a b' is not allowed: write letters, digits, "),
        (
            (*NEW, *FAY, "--ssh-key", "ssh-rsa x"),
            "allot: --ssh-key: 'ssh-rsa x' is not a public key: write one line as ",
        ),
        (
            (*NEW, *FAY, "--ssh-key", "ssh-key.pub"),
            "allot: --ssh-key: 'ssh-key.pub' can't be read: No such file or dir",
        ),
        ((*NEW, *FAY, "--ssh-key", "~nobody-here/key"), "allot: --ssh-key: '~nobody-here/key' can't be read: No such "),
        ((*NEW, *FAY, "--ssh-key", "/no/key"), "allot: --ssh-key: '/no/key' can't be read: No such file or directory"),
        ((*NEW, *FAY, "--display-name", "x" * 101), "allot: --display-name: "),
        ((*NEW, *FAY, "--description", "x" * 2001), "allot: --description: "),
        ((*NEW, *FAY, "--label", "a"), "allot: --label: 'a' is not in the format KEY=VALUE"),
        ((*NEW, *FAY, "--label", "a=b", "--label", "a=c"), "allot: --label: 'a' occurs twice: omit one of them"),
        ((*NEW, *FAY, "--label", "a/b=c"), "allot: --label: 'a/b' is not a label: write letters, digits"),
        (
            (*NEW, "--plan", "team", "--login", "x"),
            "Error: --login, --subject and --ssh-key belong to a person: add --ad",
        ),
        (("tenant", "suspend", "solo-ad"), "allot: no tenant is named 'solo-ad'; did you mean 'solo-ada'?"),
        (("tenant", "resume", "../x"), "allot: no tenant is named '../x'; known: acme-robotics, film-house, "),
        (
            ("tenant", "retire", "solo-ada", "nope"),
            "allot: no tenant is named 'nope'; known: acme-robotics, film-house",
        ),
        (BEN, "allot: 1 option missing: add --role (Admin, Member, Viewer)"),
        (
            (*BEN, "--role", "Owner"),
            "Error: Invalid value for '--role': 'Owner' is not one of 'Admin', 'Member', 'Viewer'.",
        ),
        (
            ("member", "add", "solo", "ben", "--role", "Viewer"),
            "allot: no tenant is named 'solo'; known: acme-robotics, film-",
        ),
        (("member", "add", "solo-ada", "B*!", "--role", "Viewer"), "allot: USER: 'B*!' is not allowed: write a-z, 0-9"),
        (
            (*BEN, "--role", "Member", "--login", "a b"),
            "allot: --login: 'a b' is not allowed: write a login of the forge such as ada-k",
        ),
        (
            (*BEN, "--role", "Member", "--subject", "a b"),
            "allot: --subject: 'a b' is not allowed: write letters, digits, ",
        ),
        (
            (*BEN, "--role", "Member", "--ssh-key", ADA_KEY),
            "allot: --ssh-key: users ada and ben have the same SSH key: ",
        ),
        (
            (*BEN, "--role", "Member", "--group", "--login", "x"),
            "Error: --login: a group has no login, subject and SSH ",
        ),
        (
            ("member", "remove", "solo-ada", "ada"),
            "allot: 'ada' is the last Admin of solo-ada: add another Admin first",
        ),
        (("member", "remove", "studio-kite", "mi"), "allot: studio-kite has no user 'mi'; did you mean 'mio'?"),
    ],
)
def test_a_wrong_value_is_one_error_and_changes_nothing(
    words: tuple[str, ...], message: str, place: Place, allot: Allot
) -> None:
    result = allot(*words, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    errors = [line for line in result.err.splitlines() if line and not line.startswith(("Usage: ", "Try "))]
    assert [line[: len(message)] for line in errors] == [message]
    assert git(place.root, "status", "--short") == ""


def test_a_private_key_is_refused(place: Place, allot: Allot, tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    result = allot(*BEN, "--role", "Member", "--ssh-key", file, "--repo", place.root)
    assert (result.code, result.out) == (2, "")
    assert f"'{file}' has a private key: name the file of its public key, '{file}.pub'" in result.err
    (tmp_path / "empty").write_text("# no key\n")
    result = allot(*BEN, "--role", "Member", "--ssh-key", tmp_path / "empty", "--repo", place.root)
    assert (result.code, "has no key: name a file such as id_ed25519.pub" in result.err) == (2, True)
