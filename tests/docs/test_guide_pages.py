"""The guides have one shape: a goal, prerequisites, steps, what can go wrong and what to read next, with a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import PROJECT

DOCS = PROJECT / "docs"
GUIDES = sorted(path.stem for path in (DOCS / "guides").glob("*.md"))
SHAPE = ["Prerequisites", "What can go wrong", "Next"]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
PICTURE = re.compile(r"!\[([^]]+)\]\(([^)]+\.svg)\)")
LARGEST_PICTURE = 60 * 1024


def read_guide(name: str) -> str:
    """Return the text of a guide without its code blocks."""
    return FENCE.sub("", (DOCS / f"guides/{name}.md").read_text(encoding="utf-8"))


def list_pictures(page: Path) -> list[Path]:
    """Return the files of the pictures on a page."""
    return [(page.parent / target).resolve() for _, target in PICTURE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_has_the_sections_of_a_guide(guide: str) -> None:
    headings = HEADING.findall(read_guide(guide))
    assert [heading for heading in headings if heading in SHAPE] == SHAPE
    assert (headings[0], headings[-2:]) == (SHAPE[0], SHAPE[1:])


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_begins_with_its_goal_and_ends_with_links(guide: str) -> None:
    begin, *_, last = re.split(r"^## .*$", read_guide(guide), flags=re.MULTILINE)
    goal = re.sub(r"^# .*$|<!--.*?-->|^ {4}.*$", "", begin, flags=re.MULTILINE)
    assert goal.strip()
    assert re.search(r"^- \[", last, re.MULTILINE)


@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_has_a_picture(guide: str) -> None:
    assert list_pictures(DOCS / f"guides/{guide}.md")


def test_each_picture_is_on_a_page_and_small() -> None:
    shown = {picture for page in DOCS.rglob("*.md") for picture in list_pictures(page)}
    files = {path.resolve() for path in DOCS.rglob("*.svg")}
    assert files == shown
    assert {path.name: size for path in files if (size := path.stat().st_size) > LARGEST_PICTURE} == {}
