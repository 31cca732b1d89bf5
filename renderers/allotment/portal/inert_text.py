"""Makes text of tenants inert on pages: no control characters, no addresses that run scripts, no other tenants' names."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from markupsafe import Markup, escape

MAX_TEXT = 2_000  # characters of a text on a page
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_RESOURCE_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
OTHER_TENANT = "another tenant"


def make_inert(value: Any) -> Any:
    """Return a value for a page. Control and bidirectional characters of a text are escaped, and a long text is cut."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    text = value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode("ascii") for char in text
    )


def shorten_text(text: str, most: int) -> str:
    """Return a text for a row of a long table: it takes at most `most` bytes of HTML, and a few for the mark of the cut."""
    inert: str = make_inert(text)
    size = 0
    for at, char in enumerate(inert):
        size += len(escape(char).encode())
        if size > most:
            return f"{inert[:at]}…"
    return inert


def safe_url(url: str) -> str:
    """Return an address that a page may link to; empty if it is not an http or https address."""
    return url if url.startswith(("https://", "http://")) and url.isprintable() and len(url) <= MAX_TEXT else ""


def format_code(text: str) -> Markup:
    """Return a text as HTML, with the parts between backticks as code."""
    parts = make_inert(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 and index + 1 < len(parts) else escape(part)
        for index, part in enumerate(parts)
    )


def hide_tenants(text: str, own: str, tenants: Collection[str]) -> str:
    """Return a text without the names of other tenants. A message about a full stock may name the holders of the units."""
    return _NAME.sub(
        lambda match: OTHER_TENANT if match[0] != own and match[0] in tenants else match[0], text[: MAX_TEXT + 1]
    )


def is_file_name(name: str) -> bool:
    """Return whether a name may be part of a page's path. A forged status may have any name."""
    return len(name) <= 64 and _RESOURCE_NAME.fullmatch(name) is not None
