"""The first use of a glossary term on a page links to the section of the glossary that explains the term."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.prose import read_markdown
from tests.support.documentation import DOCS

GLOSSARY = DOCS / "understand" / "glossary.md"
FOLDERS = ("guides", "operate", "start", "understand")

# Every page is about tenants, instances, storages and their limits, as in any cloud. The other words also have a
# meaning in plain English, in Kubernetes or at a forge (a GitHub App, the approval of a reviewer, a base image, a
# protected branch, the scope of a token), often on one page.
UNLINKED = {"bucket", "budget", "instance", "quota", "snapshot", "storage", "tenant"}
UNLINKED |= {"app", "approval", "base", "condition", "finding", "head", "mark", "placeholder"}
UNLINKED |= {"plan", "problem", "protected", "release", "resource", "rule", "scope", "sharing"}

_TITLES = ("Term", "Retention reason")
_FIRST_CELL = re.compile(r"^\| ([^|`]+) \|")
_TABLE_ROW = re.compile(r"^ *\|.*", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")


class Use(NamedTuple):
    """The first use of a term on a page: its line, its words, and the anchor in the glossary that it links to."""

    line: int
    words: str
    anchor: str | None


def read_terms(glossary: str) -> dict[str, str]:
    """Return the anchor of the section of each term of the glossary, without the retention reasons."""
    anchor, terms = "", dict[str, str]()
    for line in glossary.splitlines():
        if line.startswith("## "):
            anchor = line.removeprefix("## ").lower().replace(" ", "-")
        elif (match := _FIRST_CELL.match(line)) and match[1] not in _TITLES:
            terms |= dict.fromkeys(match[1].split(", "), anchor)
    return terms


def _mark_link(match: re.Match[str]) -> str:
    """Return a link to the glossary as `⟦ANCHOR TEXT⟧`, and another link without its words: its own target explains them."""
    path, _, anchor = match[2].partition("#")
    return f"⟦{anchor} {match[1]}⟧" if path.endswith("glossary.md") else "\n" * match[1].count("\n")


def find_first_uses(page: str, terms: dict[str, str]) -> dict[str, Use]:
    """Return the first use of each term in the paragraphs and list items of a page."""
    forms = {form.lower(): term for term in terms for form in (term, f"{term}s", f"{term}es", f"{term[:-1]}ies")}
    words = "|".join(r"\s+".join(form.split()) for form in sorted(forms, key=len, reverse=True))
    pattern = re.compile(rf"⟦(?P<anchor>\S*)|⟧|(?<![\w-])(?P<words>{words})(?![\w-])", re.IGNORECASE)
    uses: dict[str, Use] = {}
    for passage in read_markdown(_LINK.sub(_mark_link, _TABLE_ROW.sub("", page))):
        anchor = None
        for match in pattern.finditer(passage.text):
            if match["words"] is None:
                anchor = match["anchor"]
                continue
            form = " ".join(match["words"].split())
            line = passage.line + passage.text.count("\n", 0, match.start())
            uses.setdefault(forms[form.lower()], Use(line, form, anchor))
    return uses


def find_missing_links(page: str, terms: dict[str, str], glossary: str) -> Iterator[str]:
    """Yield the line, the term and the link to write for each term whose first use does not link to the glossary."""
    for term, use in find_first_uses(page, terms).items():
        if term not in UNLINKED and use.anchor != terms[term]:
            yield f"{use.line}: the first use of {term!r}: write [{use.words}]({glossary}#{terms[term]})"


@pytest.fixture(scope="module")
def terms() -> dict[str, str]:
    """The terms of the glossary with their anchors, of which some may go without a link."""
    terms = read_terms(GLOSSARY.read_text(encoding="utf-8"))
    assert terms.keys() > UNLINKED
    return terms


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_first_use_of_a_term_links_to_the_glossary(folder: str, terms: dict[str, str]) -> None:
    pages = [page for page in sorted((DOCS / folder).glob("*.md")) if page != GLOSSARY]
    assert pages
    missing_links = [
        f"{page.relative_to(DOCS.parent)}:{missing_link}"
        for page in pages
        for missing_link in find_missing_links(
            page.read_text(encoding="utf-8"), terms, os.path.relpath(GLOSSARY, page.parent)
        )
    ]
    assert not missing_links, "\n".join(missing_links)


def test_terms_have_the_anchor_of_their_section() -> None:
    glossary = "## Two words\n\n| Term | Meaning |\n|---|---|\n| base, head | commits |\n\n| Retention reason | M |\n|---|---|\n| `A` | b |\n"
    assert read_terms(glossary) == {"base": "two-words", "head": "two-words"}


@pytest.mark.parametrize(
    ("page", "uses"),
    [
        ("# Brake\n\n`brake`, a brake-light, [a brake](x.md).\n\n| brake |\n|---|\n\n    brake\n", {}),
        (
            "First.\n\n| A |\n|---|\n\n- Two tally\n  Entries and\n  a tally entry.\n",
            {"tally entry": Use(6, "tally Entries", None)},
        ),
        ("See [the\nbrakes](../a/glossary.md#plans), a brake.\n", {"brake": Use(2, "brakes", "plans")}),
        (
            "[A](glossary.md#plans) brake and the foot brake.\n",
            {"brake": Use(1, "brake", None), "foot brake": Use(1, "foot brake", None)},
        ),
    ],
)
def test_a_use_is_in_prose(page: str, uses: dict[str, Use]) -> None:
    assert find_first_uses(page, dict.fromkeys(("brake", "foot brake", "tally entry"), "plans")) == uses


def test_a_missing_link_is_reported_with_the_link_to_write() -> None:
    page = "A node.\nA [brake](glossary.md#other) is a foot brake.\n"
    terms = {"brake": "plans", "foot brake": "plans", "tenant": "plans"}
    assert list(find_missing_links(page, terms, "glossary.md")) == [
        "2: the first use of 'brake': write [brake](glossary.md#plans)",
        "2: the first use of 'foot brake': write [foot brake](glossary.md#plans)",
    ]
