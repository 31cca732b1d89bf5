"""The table of tenants' things agrees with everything that goes by it."""

from __future__ import annotations

import pytest

from allotment.declared.kinds import KINDS
from allotment.declared.layout import DeclarationPath, Scope, parse_path
from allotment.declared.tenant_resources import RESOURCE_KINDS, TREE_PARTS, ResourceKind, parse_file_stem
from allotment.manifests import names, paths
from allotment.manifests.layout import TENANT_MANIFESTS
from allotment.observed.status import TenantStatus

EVERY = pytest.mark.parametrize("declared_kind", RESOURCE_KINDS.values(), ids=RESOURCE_KINDS)


def test_every_kind_that_is_rendered_for_a_tenant_has_a_row() -> None:
    assert {kind.__name__ for kind in TENANT_MANIFESTS} == {
        resource_kind.kind.name for resource_kind in RESOURCE_KINDS.values()
    }
    assert TREE_PARTS == ("storage", "compute")


@EVERY
def test_its_declaration_is_found_again(declared_kind: ResourceKind) -> None:
    path = declared_kind.declaration_path("solo-ada", "one")
    assert path == f"tenants/solo-ada/{declared_kind.plural}/one.yaml"
    assert parse_path(path) == DeclarationPath(KINDS[declared_kind.kind.name], Scope("tenant", "solo-ada"), "one")


@EVERY
def test_its_rendered_file_is_found_again(declared_kind: ResourceKind) -> None:
    spot = paths.parse_tree_path(
        paths.resource_file("solo-ada", declared_kind.tree_part, declared_kind.file_stem("one"))
    )
    assert spot is not None
    assert (spot.kind, spot.resource_name, spot.is_resource_file) == (declared_kind.word, "one", True)
    assert parse_file_stem(declared_kind.tree_part, declared_kind.file_stem("one")) == (declared_kind, "one")
    leaving = paths.parse_tree_path(
        paths.resource_file("solo-ada", declared_kind.tree_part, declared_kind.file_stem("one") + paths.DELETING_SUFFIX)
    )
    assert leaving is not None
    assert (leaving.kind, leaving.is_resource_file) == ("", True)


@EVERY
def test_each_manifest_of_a_kind_has_the_folder_and_suffix_of_the_table(declared_kind: ResourceKind) -> None:
    (how,) = [how for kind, how in TENANT_MANIFESTS.items() if kind.__name__ == declared_kind.kind.name]
    assert (how.folder, how.suffix) == (declared_kind.tree_part, declared_kind.suffix)


@EVERY
def test_a_status_lists_it_and_a_label_names_it(declared_kind: ResourceKind) -> None:
    assert (declared_kind.plural in TenantStatus.__struct_fields__) == declared_kind.reported
    assert (
        names.label_of(declared_kind.word) in (names.INSTANCE, names.STORAGE, names.SNAPSHOT)
    ) == declared_kind.reported


@pytest.mark.parametrize("part", TREE_PARTS)
@pytest.mark.parametrize(
    "stem", [*paths.FOLDER_MARKERS, f"{paths.PROGRAMS_PREFIX}seal-0123456789abcdef", "one--leaving"]
)
def test_parse_file_stem_ignores_markers_programs_and_leaving_files(part: str, stem: str) -> None:
    assert parse_file_stem(part, stem) is None
