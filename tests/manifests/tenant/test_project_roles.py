"""Who sees a tenant's Applications: its own people, each as their role allows, and only in its own project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import DAY, Allot, edit

from allotment.declared.inventory import ScopeDeclarations
from allotment.declared.layout import Scope
from allotment.manifests.tenant import project_roles
from allotment.manifests.yaml_text import load

PROJECT_FILE = "eu-1/control/argo/s/studio-kite.rendered.yaml"


def project(allot: Allot, root: Path, out: Path) -> dict[str, Any]:
    result = allot("render", "--repo", root, "--out", out, "--as-of", DAY)
    assert result.code == 0, result
    spec: dict[str, Any] = load((out / PROJECT_FILE).read_bytes())[0]["spec"]
    return spec


def roles(allot: Allot, root: Path, out: Path) -> dict[str, list[str]]:
    return {role["name"]: role["groups"] for role in project(allot, root, out).get("roles", ())}


def test_pods_are_permitted_so_that_their_logs_and_terminals_can_be_had(
    sample: Path, allot: Allot, tmp_path: Path
) -> None:
    """Argo CD leaves what a project doesn't permit out of an Application's tree, with all that is below it."""
    spec = project(allot, sample, tmp_path / "out")
    permitted = [
        (resource_kind["group"], resource_kind["kind"]) for resource_kind in spec["namespaceResourceWhitelist"]
    ]
    assert {("apps", "Deployment"), ("apps", "ReplicaSet"), ("batch", "Job"), ("", "Pod")} <= set(permitted)
    assert ("", "Secret") not in permitted


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
    assert project_roles.render("studio-kite--eu-1", ScopeDeclarations(Scope("tenant", "studio-kite"))) == []


def test_terminals_are_those_of_instances_alone() -> None:
    """In a preparation one would read the keys that it fetches with, and write what nobody reviewed."""
    for role, opens in (("Admin", True), ("Member", True), ("Viewer", False)):
        exec_policies = [policy for policy in project_roles.list_policies("lab--eu-1", role) if "exec" in policy]
        only = f"p, proj:lab--eu-1:{role.lower()}, exec, create, lab--eu-1/lab--eu-1--compute, allow"
        assert exec_policies == [only] * opens
