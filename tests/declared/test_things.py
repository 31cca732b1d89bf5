"""The table of tenants' things agrees with everything that goes by it."""

from __future__ import annotations

import pytest

from allotment.declared.kinds import KINDS
from allotment.declared.layout import Meaning, Scope, spot_of
from allotment.declared.things import PARTS, THINGS, TenantThing, thing_at
from allotment.manifests import names, paths
from allotment.manifests.tree import TENANT_MANIFESTS
from allotment.observed.status import TenantStatus

EVERY = pytest.mark.parametrize("thing", THINGS.values(), ids=THINGS)


def test_every_kind_that_is_rendered_for_a_tenant_has_a_row() -> None:
    assert {kind.__name__ for kind in TENANT_MANIFESTS} == {
        resource_kind.kind.name for resource_kind in THINGS.values()
    }
    assert PARTS == ("storage", "compute")


@EVERY
def test_its_declaration_is_found_again(thing: TenantThing) -> None:
    path = thing.declaration("solo-ada", "one")
    assert path == f"tenants/solo-ada/{thing.plural}/one.yaml"
    assert spot_of(path) == Meaning(KINDS[thing.kind.name], Scope("tenant", "solo-ada"), "one")


@EVERY
def test_its_rendered_file_is_found_again(thing: TenantThing) -> None:
    spot = paths.spot_of(paths.tenant_file("solo-ada", thing.part, thing.stem("one")))
    assert spot is not None
    assert (spot.kind, spot.thing, spot.is_of_thing) == (thing.word, "one", True)
    assert thing_at(thing.part, thing.stem("one")) == (thing, "one")
    leaving = paths.spot_of(paths.tenant_file("solo-ada", thing.part, thing.stem("one") + paths.LEAVING))
    assert leaving is not None
    assert (leaving.kind, leaving.is_of_thing) == ("", True)


@EVERY
def test_it_is_rendered_where_the_table_says(thing: TenantThing) -> None:
    (how,) = [how for kind, how in TENANT_MANIFESTS.items() if kind.__name__ == thing.kind.name]
    assert (how.folder, how.suffix) == (thing.part, thing.suffix)


@EVERY
def test_a_status_lists_it_and_a_label_names_it(thing: TenantThing) -> None:
    assert (thing.plural in TenantStatus.__struct_fields__) == thing.reported
    assert (names.label_of(thing.word) in (names.INSTANCE, names.STORAGE, names.SNAPSHOT)) == thing.reported


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("stem", [*paths.MARKERS, f"{paths.PROGRAMS}seal-0123456789abcdef", "one--leaving"])
def test_what_keeps_a_folder_programs_and_what_leaves_are_no_things_own_file(part: str, stem: str) -> None:
    assert thing_at(part, stem) is None
