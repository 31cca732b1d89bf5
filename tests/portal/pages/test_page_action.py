"""Tests of the lines that a form tells a person to add to a file."""

from __future__ import annotations

import pytest

from allotment.portal.pages.page_action import add_item, remove_item


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spec:\n  users:\n    - name: jo\n", ("    - name: mia", "Or add this item to the list users of")),
        ("spec:\n  groups: []\n", ("  users:\n    - name: mia", "Or add these lines below the existing spec of")),
    ],
)
def test_an_item_joins_the_list_of_the_file(text: str, expected: tuple[str, str]) -> None:
    assert add_item(text, ("users",), "    - name: mia") == expected


def test_an_item_joins_a_list_at_any_depth() -> None:
    item, place = "      - name: A", ("container", "env")
    assert add_item("spec:\n  app: {}\n", place, item) == (
        f"  container:\n    env:\n{item}",
        "Or add these lines below the existing spec of",
    )
    assert add_item("spec:\n  container:\n    args: []\n", place, item) == (
        f"    env:\n{item}",
        "Or add these lines below the existing container of",
    )
    assert add_item("spec:\n  container:\n    env:\n", place, item) == (item, "Or add this item to the list env of")


def test_the_only_item_of_a_list_is_removed_with_the_list() -> None:
    item = "    - name: mia"
    assert remove_item(2, "users", item) == (item, "Or remove this item with all its lines from the list users of")
    assert remove_item(1, "users", item) == (
        f"  users:\n{item}",
        "Or remove this list with all its lines below the existing spec of",
    )
