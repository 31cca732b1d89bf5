"""`deletion_actions` offers the two merges that delete a snapshot, on a page of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Allot
from tests.portal.pages.page_text import read_facts
from tests.portal.pages.sample_site import build, create_place
from tests.support.published import Place

SNAPSHOT = "tenants/studio-kite/snapshots/before-upgrade"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return create_place(tmp_path / "place")


def read_actions(place: Place, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the changes of the sample's snapshot, and the HTML of its page."""
    build(place, folder / "site", tenant="studio-kite")
    page = folder / f"site/{SNAPSHOT}.html"
    actions: dict[str, Any] = read_facts(page)["actions"]
    return actions, page.read_text(encoding="utf-8")


def test_a_snapshot_is_deleted_in_two_merges(place: Place, tmp_path: Path, allot: Allot) -> None:
    before = (place.root / f"{SNAPSHOT}.yaml").read_text()
    actions, page = read_actions(place, tmp_path)
    assert (list(actions), "Marked for deletion" in page) == (["delete-snapshot"], False)
    first = actions["delete-snapshot"]
    assert first["notes"] == [
        "The second merge is refused while another file names the snapshot: storage outputs-restored names it: run `allot set"
        " storage/studio-kite/outputs-restored prepare-` once it is Ready.",
        "This first of two merges deletes nothing. Repeat this step at least 1h after it: the second merge deletes the data.",
        "The snapshot costs 40.00 EUR a month until the second merge.",
    ]
    assert allot(*first["command"][1:-1], "--repo", place.root).code == 0
    assert (place.root / f"{SNAPSHOT}.yaml").read_text() == f"{before}{first['text']}\n"
    place.merge()
    actions, page = read_actions(place, tmp_path)
    assert (list(actions), "Marked for deletion" in page) == (["delete-snapshot", "retain"], True)
    second = actions["delete-snapshot"]
    assert (second["text"], second["command"]) == ("", first["command"])
    assert second["notes"][-1] == "-40.00 EUR in a month of 730 hours"
    assert allot(*actions["retain"]["command"][1:-1], "--repo", place.root).code == 0
    assert (place.root / f"{SNAPSHOT}.yaml").read_text() == before


def test_a_snapshot_that_is_not_declared_has_no_form(place: Place, tmp_path: Path) -> None:
    (place.root / "tenants/studio-kite/storages/outputs-restored.yaml").unlink()
    (place.root / f"{SNAPSHOT}.yaml").unlink()
    place.merge()
    build(place, tmp_path / "site", tenant="studio-kite")
    page = (tmp_path / f"site/{SNAPSHOT}.html").read_text(encoding="utf-8")
    assert ("<h1>Snapshot before-upgrade</h1>" in page, "<form" in page) == (True, False)
