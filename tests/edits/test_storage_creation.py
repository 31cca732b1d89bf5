"""The names that a new instance proposes for its storages. `tests/cli/test_storage_verbs.py` creates storages."""

from __future__ import annotations

import pytest

from allotment.edits.storage_creation import name_folder


@pytest.mark.parametrize(
    ("path", "name"),
    [("/workspace/models", "models"), ("/home/.Cache_2", "cache-2"), ("/root", "root"), ("/data/Bilder.", "bilder")],
)
def test_a_folder_gives_its_storage_a_valid_name(path: str, name: str) -> None:
    assert name_folder(path) == name
