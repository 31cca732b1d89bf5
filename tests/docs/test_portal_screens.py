"""The pictures of the portal have the widths in their names, and each is small and on a page or a phone."""

from __future__ import annotations

import struct

import pytest
from tests.conftest import PROJECT
from tests.portal.pages.screens import FOLDER, SCREENS

LARGEST = 200 * 1024


def test_each_screen_has_a_picture() -> None:
    assert {path.stem for path in FOLDER.glob("*.png")} == {screen.name for screen in SCREENS}
    assert {screen.width for screen in SCREENS} == {360, 1024, 1920}
    assert {screen.theme for screen in SCREENS} == {"light", "dark"}


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_a_picture_has_the_size_of_its_screen(screen: object) -> None:
    assert isinstance(screen, type(SCREENS[0]))
    data = (FOLDER / f"{screen.name}.png").read_bytes()
    assert len(data) < LARGEST
    assert struct.unpack(">II", data[16:24]) == (screen.width, screen.height)


def test_each_picture_is_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "docs").rglob("*.md"))
    assert [screen.name for screen in SCREENS if f"portal/{screen.name}.png" not in text] == []
