"""Reading declarations: a character less gives a clean verdict."""

from __future__ import annotations

import pytest
from tests.conftest import PROJECT
from tests.support.sample_catalog import OFFERS

from allotment.declared.inventory import ScopeDeclarations, cached_by_scope
from allotment.declared.layout import DeclarationPath, Scope, parse_path
from allotment.declared.reading import read_declaration, read_folder
from allotment.manifests.layout import render_tenant
from allotment.rules import TENANT_RULES

FILES = [
    "tenants/studio-kite/instances/webui.yaml",
    "tenants/studio-kite/storages/model-cache.yaml",
    "tenants/studio-kite/members.yaml",
    "platform/specs/l4-quarter.yaml",
    "platform/plans/team.yaml",
    "clusters/us-1/node-pools/h100.yaml",
]


@pytest.mark.parametrize("path", FILES)
def test_deleting_any_character_gives_a_verdict(path: str) -> None:
    data, spot = (PROJECT / path).read_bytes(), parse_path(path)
    assert isinstance(spot, DeclarationPath)
    wrong = 0
    for at in range(len(data)):
        declared, problems = read_declaration(path, data[:at] + data[at + 1 :], spot)
        assert (declared is None) == bool(problems)
        wrong += declared is None
    assert 0 < wrong < len(data)


@pytest.mark.parametrize("path", FILES)
def test_replacing_any_line_gives_a_verdict(path: str) -> None:
    lines, spot = (PROJECT / path).read_bytes().splitlines(keepends=True), parse_path(path)
    assert isinstance(spot, DeclarationPath)
    for at in range(len(lines)):
        for other in (b"", b"\n", b"  - x\n", b"x: [\n", b"  {}: 1\n", b"spec: 1\n", b"\xff\n"):
            declared, problems = read_declaration(path, b"".join([*lines[:at], other, *lines[at + 1 :]]), spot)
            assert (declared is None) == bool(problems)


def test_render_tenant_renders_each_valid_file_that_lacks_a_character() -> None:
    path = "tenants/studio-kite/instances/webui.yaml"
    data = (PROJECT / path).read_bytes()
    others = [
        file.relative_to(PROJECT).as_posix()
        for file in (PROJECT / "tenants/studio-kite").rglob("*.yaml")
        if not path.endswith(str(file))
    ]
    files = {other: (PROJECT / other).read_bytes() for other in others}
    rendered = 0
    for at in range(len(data)):
        files[path] = data[:at] + data[at + 1 :]
        folder, problems = read_folder(Scope("tenant", "studio-kite"), sorted(files.items()))
        problems += [
            finding for check in TENANT_RULES.values() for finding in check(OFFERS, folder) if not finding.warning
        ]
        if not problems:
            rendered += bool(list(render_tenant(OFFERS, folder)))
    assert rendered > 50


def test_a_result_is_cached_in_its_scope_and_released_with_it() -> None:
    calls: list[str] = []

    @cached_by_scope
    def describe(scope: ScopeDeclarations, name: str) -> str:
        calls.append(name)
        return f"{scope.name} {name}"

    first, second = ScopeDeclarations(Scope("cluster", "eu-1")), ScopeDeclarations(Scope("cluster", "us-1"))
    results = [describe(scope, name) for scope in (first, first, second) for name in ("a", "b")]
    assert results == ["eu-1 a", "eu-1 b", "eu-1 a", "eu-1 b", "us-1 a", "us-1 b"]
    assert calls == ["a", "b", "a", "b"]
    assert [len(scope.derived) for scope in (first, second)] == [2, 2]
