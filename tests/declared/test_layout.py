"""Paths: what may lie where, and what a path means."""

from __future__ import annotations

import pytest

from allotment.declared.kinds import KINDS
from allotment.declared.layout import DeclarationPath, Scope, parse_path, path_of
from allotment.problems import Finding


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_kinds_path_means_that_kind(kind: object) -> None:
    scope = Scope(kind.scope, "" if kind.scope == "platform" else "north")
    stem = kind.path.split("/")[-1].removesuffix(".yaml")
    name = scope.name or stem if kind.singleton else "thing"
    assert parse_path(path_of(kind.name, scope, name)) == DeclarationPath(kind, scope, name)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("tenants/acme/instances/webui.yml", "layout"),
        ("tenants/acme/notes.txt", "layout"),
        ("tenants/acme/.gitattributes", "layout"),
        ("tenants/acme/instances/deep/webui.yaml", "layout"),
        ("tenants/acme/passwords/x.yaml", "layout"),
        ("platform/evil.py", "layout"),
        ("platform/__init__.py", "layout"),
        ("clusters/eu-1/tenant.yaml", "layout"),
        ("tenants/Acme/tenant.yaml", "name"),
        ("tenants/ac/tenant.yaml", "name"),
        ("tenants/a--b/tenant.yaml", "name"),
        ("tenants/acme-/tenant.yaml", "name"),
        ("tenants/a-tenant-name-beyond-20/tenant.yaml", "name"),
        ("tenants/acme/instances/con.yaml", "name"),
        ("tenants/acme/instances/w\u0435bui.yaml", "name"),
        ("tenants/acme/instances/an-instance-name-beyond-24.yaml", "name"),
        ("tenants/lpt1/tenant.yaml", "name"),
        ("tenants/allotment/tenant.yaml", "name"),
        ("tenants/allotment/instances/webui.yaml", "name"),
    ],
)
def test_nothing_else_may_lie_there(path: str, rule: str) -> None:
    finding = parse_path(path)
    assert isinstance(finding, Finding)
    assert finding.rule == rule


def test_a_readme_may_lie_anywhere() -> None:
    assert parse_path("tenants/acme/README.md") is None


def test_the_platforms_own_name_is_no_tenants() -> None:
    assert parse_path("tenants/allotment/tenant.yaml") == Finding(
        "tenants/allotment/tenant.yaml",
        (),
        "tenant name 'allotment' is reserved for the platform's own objects in Argo CD: choose another",
        "name",
    )
    assert isinstance(parse_path("clusters/allotment/cluster.yaml"), DeclarationPath)
