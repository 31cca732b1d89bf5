"""`allot storage list`: size, preparation, users and cost of storages, with filters."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.conftest import Allot, Result, checked, edit
from tests.support.published import Place

HEADS = "STORAGE CLUSTER SPEC SIZE STATE PREPARATION MOUNTED BY AGE EUR/HOUR"


@pytest.fixture
def run_list(place: Place, allot: Allot) -> Allot:
    def run(*words: object) -> Result:
        return allot("storage", "list", "--repo", place.root, *words)

    return run


def test_a_row_has_the_users_and_the_cost(run_list: Allot) -> None:
    result = run_list("--tenant", "solo-ada")
    assert [" ".join(line.split()) for line in result.out.splitlines()] == [
        HEADS,
        "solo-ada/models eu-1 block-ssd 60Gi Merged none webui - 0.0082",
        "solo-ada/styles eu-1 block-ssd 10Gi Merged - - - 0.0014",
    ]


def test_the_cost_per_hour_is_exact_in_json(run_list: Allot) -> None:
    output = checked("storage list", run_list("solo-ada", "-o", "json").out)
    models = output["storages"][0]
    assert (models["size"], models["mountedBy"], models["source"]) == ("60Gi", ["webui"], None)
    assert models["costPerHour"] == pytest.approx(float(Decimal("0.10") * 60 / 730))


def test_a_storage_that_is_marked_for_deletion_is_named(run_list: Allot, place: Place, allot: Allot) -> None:
    edit(place.root, "tenants/solo-ada/storages/styles.yaml", "\n  size:", "\n  deletionPolicy: Delete\n  size:")
    place.merge()
    _, models, styles = run_list("--tenant", "solo-ada").out.splitlines()
    assert ("marked for deletion" in models, "Merged, marked for deletion" in styles) == (False, True)
    output = checked("storage list", run_list("solo-ada", "-o", "json").out)
    assert [each["deletionPolicy"] for each in output["storages"]] == ["Retain", "Delete"]
    shown = allot("storage", "show", "solo-ada/styles", "--repo", place.root).out
    assert "Deletion policy: Delete" in " ".join(shown.split())
    for words in (("storage", "show", "solo-ada/styles"), ("status", "solo-ada/styles"), ("status", "solo-ada")):
        assert allot(*words, "--repo", place.root).out.count("Merged, marked for deletion") == 1


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (("--spec", "objects"), "ml-orbit/datasets"),
        (
            ("--cluster", "us-1", "--sort-by", "-size"),
            "acme-robotics/frames ml-orbit/checkpoints ml-orbit/weights acme-robotics/old-frames",
        ),
        (("--tenant", "solo-ada", "--max-price", "0.002"), "solo-ada/styles"),
    ],
)
def test_filters_select_storages(filters: tuple[str, ...], names: str, run_list: Allot) -> None:
    assert run_list("-o", "name", *filters).out.split() == names.split()


def test_an_unknown_storage_spec_is_an_error(run_list: Allot) -> None:
    result = run_list("--spec", "block-sdd")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[1:] == ["allot: no StorageSpec is named 'block-sdd'; did you mean 'block-ssd'?"]
