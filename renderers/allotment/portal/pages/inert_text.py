"""Makes text of tenants inert on pages: no control characters, no addresses that run scripts, no other tenants' names."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from markupsafe import Markup, escape

MAX_TEXT = 2_000  # characters of a text on a page
MAX_NAME = 64  # characters of a name; a forged status may have longer names
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_HIDDEN = "names another tenant, so it is not shown here"
_BEFORE_TENANT = (
    "tenant ",
    "tenants ",
    "tenants/",
    "for ",
    "by ",
    "--",
)  # what precedes the name of a tenant in a text
_AFTER_TENANT = "/", "'s "
_UNKNOWN_TENANT = "no Tenant is named"  # after these words, a text suggests names of tenants
_CLAUSE_ENDS = (": ", "; ", ". ")


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


def safe_url(url: str | None) -> str:
    """Return an address that a page may link to; empty if it is not an http or https address."""
    return url if url and url.startswith(("https://", "http://")) and url.isprintable() and len(url) <= MAX_TEXT else ""


def format_code(text: str) -> Markup:
    """Return a text as HTML, with the parts between backticks as code."""
    parts = make_inert(text).split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 and index + 1 < len(parts) else escape(part)
        for index, part in enumerate(parts)
    )


def hide_tenants(text: str, own: str, tenants: Collection[str], resources: Collection[str] = ()) -> str:
    """Return a text without the part that names another tenant. A message about a full stock may name the holders of the units.

    The text ends before the first clause that names one of `tenants` other than `own`, because the name of an instance or a
    number may follow. A word without a hyphen may be an ordinary word, so it counts as a tenant only where the texts of Allotment
    have the name of a tenant, such as in `NAME/INSTANCE`. `resources` are the names of the tenant's own resources.
    """
    short = text[: MAX_TEXT + MAX_NAME]  # a page shows less, and the cut must not hide the end of a name
    for match in _NAME.finditer(short):
        name, before = match[0], short[: match.start()]
        if name == own or name not in tenants:
            continue
        is_tenant = (
            short.startswith(_AFTER_TENANT, match.end()) or before.endswith(_BEFORE_TENANT) or _UNKNOWN_TENANT in before
        )
        if is_tenant or ("-" in name and name not in resources):
            end = max(before.rfind(mark) for mark in _CLAUSE_ENDS)
            return f"{before[:end]}: the rest {_HIDDEN}" if end > 0 else f"this text {_HIDDEN}"
    return text


def is_file_name(name: str) -> bool:
    """Return whether a name may be part of a page's path. A forged status may have any name."""
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None
