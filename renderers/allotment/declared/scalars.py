"""What an unquoted scalar means: text, a whole number, true or false, or something that two readers take differently."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from allotment.problems import printable

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_MOST_DIGITS = 18
_WORDS = frozenset(
    form
    for word in ("y", "n", "yes", "no", "on", "off", "true", "false")
    for form in (word, word.title(), word.upper())
)
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
# Whatever YAML 1.1 or 1.2 could read as a number, a date or a time: `012`, `0o14`, `1_000`, `1e3`, `1:30`, `.5`,
# `1.10`.
_NUMBER_LIKE = re.compile(
    r"[-+]?(?:0[xob][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?:inf|Inf|INF|nan|NaN|NAN))"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?"
)


class Surprise(NamedTuple):
    """A scalar that could mean more than one thing: what to say of it, the rule, and a value to go on with."""

    message: str
    rule: str
    value: Any


def meaning(text: str) -> Any:
    """Return the str, int or bool that an unquoted scalar means to every reader, or a Surprise."""
    if text[:1].isalpha():
        if text == "true":
            return True
        if text == "false":
            return False
        if text in _WORDS:
            message = f'{text} is true or false to some YAML readers: quote it, "{text}", or write true or false'
            return Surprise(message, "scalar", text)
        if text in _NULLS:
            return Surprise(f'{text} means "nothing" to YAML: remove the field, or quote it', "null", text)
        return text
    if text in _NULLS:
        return Surprise("the field has no value: write one, or remove the field", "null", text)
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("-")) > _MOST_DIGITS:
            return Surprise(f"a number of {len(text)} digits is too large: write at most {_MOST_DIGITS}", "number", 0)
        return int(text)
    if _NUMBER_LIKE.fullmatch(text) or text == "=":
        shown = printable(text, 40)
        message = f'{shown} is a number, date or time to some YAML readers and text to others: quote it, "{shown}"'
        return Surprise(message, "scalar", text)
    return text


def reads_as_text(text: str) -> bool:
    """Return whether `text`, written without quotes, is text to every YAML reader."""
    return meaning(text) is text and text != "<<"
