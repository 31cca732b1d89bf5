"""Reads the text of the portal's pages."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from allotment.portal.pages.page_renderer import Page

_FACTS = re.compile(r'<script[^>]*id="facts"[^>]*>(.*?)</script>', re.DOTALL)


def read_facts(path: Path) -> dict[str, Any]:
    """Return the facts of the form on a page."""
    match = _FACTS.search(path.read_text(encoding="utf-8"))
    assert match is not None
    facts: dict[str, Any] = json.loads(match[1])
    return facts


def read_text(page: Page) -> str:
    """Return the text of a page, without its tags."""
    text = re.sub(r"<[^>]+>", " ", page.content.decode())
    return " ".join(html.unescape(text).split())


def index_pages(pages: Iterable[Page]) -> dict[str, Page]:
    """Return the pages by path."""
    return {page.path: page for page in pages}


def find_links(page: Page) -> set[str]:
    """Return the paths of the portal's pages that a page links to."""
    folder = page.path.split("/")[:-1]
    paths = set()
    for address in re.findall(r'<a [^>]*href="([^"#:]+)"', page.content.decode()):
        parts = folder.copy()
        for part in address.split("/"):
            parts = parts[:-1] if part == ".." else [*parts, part]
        paths.add("/".join(parts))
    return paths
