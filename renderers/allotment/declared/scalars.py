"""Interpret an unquoted scalar as text, whole number or boolean, or find that YAML parsers disagree about its type."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from allotment.problems import escape_unprintable

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_MAX_DIGITS = 18
_BOOLEAN_WORDS = frozenset(
    form
    for word in ("y", "n", "yes", "no", "on", "off", "true", "false")
    for form in (word, word.title(), word.upper())
)
_NULL_WORDS = frozenset(("", "~", "null", "Null", "NULL"))
# Anything that YAML 1.1 or 1.2 could read as a number, a date or a time: `012`, `0o14`, `1_000`, `1e3`, `1:30`,
# `.5`, `1.10`.
_LOOKS_LIKE_NUMBER = re.compile(
    r"[-+]?(?:0[xob][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?:inf|Inf|INF|nan|NaN|NAN))"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
)


class AmbiguousScalar(NamedTuple):
    """A scalar that is not allowed, mostly because parsers disagree about its type.

    `message` and `rule` describe the finding about the scalar. The reader uses `value` in place of the scalar, so that
    it can check the rest of the file.
    """

    message: str
    rule: str
    value: Any


def parse_scalar(text: str) -> Any:
    """Return the str, int or bool that every parser reads from an unquoted scalar, or an AmbiguousScalar."""
    if text[:1].isalpha():
        if text == "true":
            return True
        if text == "false":
            return False
        if text in _BOOLEAN_WORDS:
            message = f'{text} is true or false to some YAML readers: quote it, "{text}", or write true or false'
            return AmbiguousScalar(message, "scalar", text)
        if text in _NULL_WORDS:
            return AmbiguousScalar(f'{text} means "nothing" to YAML: remove the field, or quote it', "null", text)
        return text
    if text in _NULL_WORDS:
        return AmbiguousScalar("the field has no value: write one, or remove the field", "null", text)
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("-")) > _MAX_DIGITS:
            return AmbiguousScalar(
                f"a number of {len(text)} digits is too large: write at most {_MAX_DIGITS}", "number", 0
            )
        return int(text)
    if _LOOKS_LIKE_NUMBER.fullmatch(text) or text == "=":
        displayed_text = escape_unprintable(text, 40)
        message = f'{displayed_text} is a number, date or time to some YAML readers and text to others: quote it, "{displayed_text}"'
        return AmbiguousScalar(message, "scalar", text)
    return text


def reads_as_text(text: str) -> bool:
    """Return whether every YAML parser reads `text` as text if it is not quoted."""
    return parse_scalar(text) is text and text != "<<"
