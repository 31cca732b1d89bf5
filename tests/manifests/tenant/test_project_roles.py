"""Who sees a tenant's Applications: its own people, each as their role allows, and only in its own project."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import DAY, Allot, edit

from allotment.declared.inventory import Folder
from allotment.declared.layout import Scope
from allotment.manifests.tenant import project_roles
from allotment.manifests.text import load

PROJECT_FILE = "eu-1/control/argo/s/studio-kite.rendered.yaml"


def roles(allot: Allot, root: Path, out: Path) -> dict[str, list[str]]:
    found = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert found.code == 0, found
    spec = load((out / PROJECT_FILE).read_bytes())[0]["spec"]
    return {role["name"]: role["groups"] for role in spec.get("roles", ())}


def test_groups_and_people_by_their_role(sample: Path, allot: Allot, tmp_path: Path) -> None:
    assert roles(allot, sample, tmp_path / "out") == {
        "admin": ["00u1mio", "kite-leads"],
        "member": ["kite-designers"],
        "viewer": ["kite-clients"],
    }


def test_a_role_that_nobody_has_is_left_out(sample: Path, allot: Allot, tmp_path: Path) -> None:
    edit(
        sample,
        "tenants/studio-kite/members.yaml",
        "name: kite-clients\n      role: Viewer",
        "name: kite-clients\n      role: Member",
    )
    assert roles(allot, sample, tmp_path / "out") == {
        "admin": ["00u1mio", "kite-leads"],
        "member": ["kite-clients", "kite-designers"],
    }


def test_without_members_nobody_sees_anything() -> None:
    assert project_roles.render("studio-kite--eu-1", Folder(Scope("tenant", "studio-kite"))) == []
