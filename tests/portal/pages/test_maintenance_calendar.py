"""The calendar files of the portal: a tenant sees the cordons of its nodes, the platform team sees all."""

from __future__ import annotations

import datetime
from pathlib import Path

import icalendar
import pytest
from tests.conftest import Allot
from tests.portal.pages.sample_site import build, create_place
from tests.support.published import Place

NODE = "eu-1-l4-ts4-1"
REASON = "New driver; BEGIN:VALARM, Straße"


def read_events(path: Path) -> list[tuple[str, str, datetime.date, datetime.date | None]]:
    """Return the title, the text and the days of each event of a calendar."""
    calendar = icalendar.Calendar.from_ical(path.read_bytes())
    return [
        (
            str(event["SUMMARY"]),
            str(event["DESCRIPTION"]),
            event["DTSTART"].dt,
            event["DTEND"].dt if "DTEND" in event else None,
        )
        for event in calendar.walk("VEVENT")
    ]


@pytest.fixture
def place(tmp_path: Path, allot: Allot) -> Place:
    """Return a sample cloud with a planned drain of a node, and a cordon without end of another node."""
    place = create_place(tmp_path)
    for verb, node, days in (
        ("drain", NODE, ("--from", "2026-12-01", "--until", "2026-12-03")),
        ("cordon", "n9", ("--from", "2026-12-05")),
    ):
        words = ("node", verb, f"eu-1/{node}", "--pool", "l4-ts4", "--reason", REASON, *days, "--repo", place.root)
        result = allot(*words)
        assert result.code == 0, result
    place.merge()
    return place


def test_a_tenant_has_an_event_for_each_cordon_of_its_nodes(place: Place, tmp_path: Path) -> None:
    build(place, tmp_path / "site")
    effect = f"{REASON}; the instance restarts on another node on 2026-12-01."
    days = datetime.date(2026, 12, 1), datetime.date(2026, 12, 3)
    tenants = tmp_path / "site/tenants"
    assert read_events(tenants / "studio-kite/maintenance.ics") == [("Maintenance of webui", effect, *days)]
    page = (tenants / "studio-kite/index.html").read_text()
    assert 'href="../../tenants/studio-kite/maintenance.ics"' in page
    assert "maintenance from 2026-12-01 until 2026-12-03: New driver" in page
    assert read_events(tenants / "ml-orbit/maintenance.ics") == []
    assert "maintenance.ics" not in (tenants / "ml-orbit/index.html").read_text()


def test_the_platform_team_has_an_event_for_each_cordon(place: Place, tmp_path: Path) -> None:
    build(place, tmp_path / "site")
    drain, cordon = read_events(tmp_path / "site/platform/maintenance.ics")
    moves = f"{REASON}; instances move to other nodes on the first day."
    assert drain == (
        f"Maintenance of node {NODE} in eu-1",
        moves,
        datetime.date(2026, 12, 1),
        datetime.date(2026, 12, 3),
    )
    stays = f"{REASON}; instances stay until they stop, and no instance starts there. No end is declared."
    assert cordon == ("Maintenance of node n9 in eu-1", stays, datetime.date(2026, 12, 5), None)
    assert 'href="../platform/maintenance.ics"' in (tmp_path / "site/platform/stock.html").read_text()
