"""The pages of docs/: links lead somewhere, the site has all of them, and its pages fetch nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT
from tests.support.documentation import DOCS

PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source|use)\b[^>]*?\b(?:src|href|srcset)=[\"']?((?:https?:)?//[^\"'\s>]+)"
)


def named(nav: list[Any]) -> list[str]:
    """Return the pages of a navigation, in its order."""
    pages: list[str] = []
    for nav_entry in nav:
        inner = next(iter(nav_entry.values())) if isinstance(nav_entry, dict) else nav_entry
        pages += named(inner) if isinstance(inner, list) else [inner]
    return pages


def test_every_page_stands_in_the_navigation_once() -> None:
    nav = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    assert sorted(named(nav)) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_of_the_site(page: str) -> None:
    text = FENCE.sub("", (DOCS / page).read_text(encoding="utf-8"))
    links = [link for link in LINK.findall(text) if not link.startswith("https://")]
    targets = [(DOCS / page).parent.joinpath(link).resolve() for link in links]
    assert [target for target in targets if not (target.is_file() and target.is_relative_to(DOCS))] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_into_the_repository_lead_somewhere(page: str) -> None:
    links = [link for link in LINK.findall((PROJECT / page).read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (PROJECT / link).exists()] == []


@pytest.mark.parametrize("page", [page_path for page_path in PAGES if not page_path.startswith("reference/")])
def test_prose_keeps_to_125_characters(page: str) -> None:
    lines = FENCE.sub("", (DOCS / page).read_text(encoding="utf-8")).splitlines()
    assert [line for line in lines if len(line) > 125 and not line.startswith(("|", "    ", "!["))] == []


@pytest.mark.process
def test_the_site_builds_and_its_pages_fetch_nothing_from_elsewhere(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(PROJECT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {
        str(path.relative_to(tmp_path)): path.read_text("utf-8") for path in (tmp_path / "docs-site").rglob("*.html")
    }
    assert len(pages) == len(PAGES) + 1, "and the one for what isn't found"
    assert {page: urls for page, text in pages.items() if (urls := FETCHED.findall(text))} == {}
    styles = [path.read_text("utf-8") for path in (tmp_path / "docs-site").rglob("*.css")]
    assert styles
    assert [style for style in styles if re.search(r"url\([\"']?(?:https?:)?//", style)] == []
