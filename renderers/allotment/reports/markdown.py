"""Write Markdown for forges. Text from a tenant, a pod or a registry is displayed literally.

Forges search the rendered text for mentions, references and bare URLs, so a backslash in the Markdown does not prevent
them. Therefore comments contain text from others only in code spans. In a code span, mentions, links, images, HTML and
quick actions have no effect on any forge.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&@$:/.-])")
_TICKS = re.compile("`+")
_MAX_LENGTH = 200  # characters of a message
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def escape_markdown(text: str, limit: int = _MAX_LENGTH) -> str:
    """Return Markdown that displays a text literally, with at most `limit` characters of the text."""
    cut = text if len(text) <= limit else f"{text[:limit]}…"
    return _SPECIAL.sub(r"\\\1", " ".join(cut.split()).replace("&", "&amp;").replace("<", "&lt;"))


def escape_invisible(text: str) -> str:
    """Return a text with escapes for characters that are invisible or change the direction of other characters."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character
        if character == "\n" or unicodedata.category(character) not in _HIDDEN_CATEGORIES
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def code_span(text: str, limit: int = _MAX_LENGTH) -> str:
    """Return a text as a code span on one line, also valid in a table."""
    return code_span_outside_tables(text, limit).replace("|", "\\|")


def code_span_outside_tables(text: str, limit: int = _MAX_LENGTH) -> str:
    """Return a text as a code span on one line, for use outside tables.

    In a table, a `|` in the text would end the cell.
    """
    cut = text if len(text) <= limit else f"{text[:limit]}…"
    escaped_text = escape_invisible(" ".join(cut.split()))
    if not escaped_text:
        return ""
    ticks = "`" * (max((len(run) for run in _TICKS.findall(escaped_text)), default=0) + 1)
    space = " " if "`" in (escaped_text[0], escaped_text[-1]) else ""
    return f"{ticks}{space}{escaped_text}{space}{ticks}"


def code_block(lines: Sequence[str], language: str = "") -> str:
    """Return lines as a code block with a fence that is longer than any run of backticks in the lines."""
    text = escape_invisible("\n".join(lines))
    ticks = "`" * max(3, max((len(run) for run in _TICKS.findall(text)), default=0) + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; "None." if it has no rows. The cells are Markdown and are not escaped."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ["None."]
    return [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}", *lines]
