"""The fields that differ between two versions of a declaration, as a person finds them in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import PROJECT

from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.layout import Scope
from allotment.declared.reading import read_folder
from allotment.diff.field_diff import UNTRUNCATED, DiffCache, differences, display_value, values_of

PATH = "tenants/acme-robotics/instances/simulate.yaml"


def declared(*swaps: tuple[str, str]) -> DeclarationFile[Declaration]:
    text = (Path(PROJECT) / PATH).read_text()
    for old, new in swaps:
        assert old in text, old
        text = text.replace(old, new, 1)
    folder, wrong = read_folder(Scope("tenant", "acme-robotics"), [(PATH, text.encode())])
    assert wrong == []
    return folder.of_kind(GPUInstance)["simulate"]


def describe_differences(*swaps: tuple[str, str]) -> list[str]:
    return [str(change) for change in differences(declared(), declared(*swaps))]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ('value: "4"', 'value: "5"', ["spec.container.env[WORKERS].value 4 → 5"]),
        ("name: WORKERS", "name: HANDS", ["spec.container.env[HANDS] added: value 4", "spec.container.env[WORKERS] removed: value 4"]),
        ("replicas: 6", "replicas: 7", ["spec.replicas 6 → 7"]),
        ("spec:\n", "spec:\n  state: Running\n", []),
        ("spec:\n", "# only said\nspec:\n", []),
        ("  labels:\n", "  labels:\n    arm: left\n", ["metadata.labels.arm added: left"]),
    ],
)  # fmt: skip
def test_a_field_is_named_with_both_values(old: str, new: str, lines: list[str]) -> None:
    assert describe_differences((old, new)) == lines


def test_the_order_of_a_list_counts_only_where_it_means_something() -> None:
    env = "    env:\n      - name: A\n        value: left\n      - name: B\n        value: right\n"
    turned = "    env:\n      - name: B\n        value: right\n      - name: A\n        value: left\n"
    begin = declared(("    env:\n", env))
    assert differences(begin, declared(("    env:\n", turned))) == []
    original, other = (declared(("    env:\n", f"    args: [{args}]\n    env:\n")) for args in ("a, b", "b, a"))
    assert [str(each) for each in differences(original, other)] == ["spec.container.args a, b → b, a"]


def test_two_entries_of_a_name_are_told_apart() -> None:
    mounts = "  storages:\n    - name: frames\n      mountPath: /{}\n    - name: frames\n      mountPath: /b\n"
    swap = "  storages:\n", mounts.format("a")
    (line,) = (
        str(change)
        for change in differences(declared(swap), declared((swap[0], mounts.format("c"))))
        if "mountPath" in change.field
    )
    assert line == "spec.storages[frames].mountPath /a → /c"


def test_all_fields_of_a_name_are_found() -> None:
    assert values_of(declared(), "exposure") == {
        "spec.container.ports[http].exposure": "Members",
        "spec.container.ports[replay].exposure": "Public",
    }


def test_a_difference_is_worked_out_once() -> None:
    noted, original, other = DiffCache(), declared(), declared(("replicas: 6", "replicas: 7"))
    assert noted.field_changes(original, other) is noted.field_changes(original, other)
    assert noted.field_changes(original, original) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a-b.c:1/x@y#4", "a-b.c:1/x@y#4"),
        ("two words", "'two words'"),
        ("", "''"),
        ("a → b", "'a → b'"),
        ("\x1b[31m", "'\\x1b[31m'"),
        ("x" * 200, f"'{'x' * 120}… (200 characters)'"),
        (True, "true"),
        (12, "12"),
    ],
)
def test_a_value_shows_where_it_ends(value: object, text: str) -> None:
    assert display_value(value) == text


def test_a_value_is_escaped_as_well_where_its_end_is_shown() -> None:
    assert display_value(f"{'a' * 130} \u202eevil", UNTRUNCATED) == f"'{'a' * 130} \\u202eevil'"
    assert display_value("a" * 130) == f"'{'a' * 120}… (130 characters)'"
