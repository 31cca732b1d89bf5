"""Says whether a header of HTTP can contain a text."""

from __future__ import annotations


def can_be_in_header(text: str) -> bool:
    """Return whether a header can contain `text`. An HTTP library refuses any other text with an error that contains it."""
    return text.isascii() and text.isprintable()
