"""Faults in declarations, and the exceptions that end a command."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, NamedTuple

FieldPath = tuple["str | int", ...]

_NO_ASCII = re.compile("[^\x20-\x7e]")
_PHONETIC_LETTERS = "\u017f"  # from here on, a Latin letter without an accent is rare: U+0251 looks like `a`
_BLANK_SYMBOLS = ("BRAILLE PATTERN BLANK", "MUSICAL SYMBOL NULL NOTEHEAD")
_TYPOGRAPHIC_QUOTES = re.compile("([“”„‘’‚«»])(.*)([“”‘’«»])", re.DOTALL)  # people paste them


_MIN_SECRET_LENGTH = 6  # a shorter text occurs in other words too
_URL_PASSWORD = re.compile(r"(://[^/\s'\"@:]*):[^/\s'\"@]+@")
_URL_TOKEN = re.compile(r"([?&](?:(?:private|access|job|auth|oauth)_)?token=)[^&#\s'\"]+", re.IGNORECASE)
_secrets: set[str] = set()


def hide_in_errors(*secrets: str) -> None:
    """Replace these texts by `***` in errors, escaped texts, logs and crash reports, because a server may repeat a token."""
    _secrets.update(secret for secret in secrets if len(secret) >= _MIN_SECRET_LENGTH)


def hide_secrets(text: str) -> str:
    """Return a text without the secrets of `hide_in_errors`, and without the passwords and tokens in its URLs."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return _URL_TOKEN.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", text))


def escape_unprintable(text: str, limit: int = 120) -> str:
    """Return `text` as a single line, which is safe in a terminal and in a log.

    Each character that is not clear, such as a control character, is replaced by an escape. `##[` gets a space,
    because GitHub's runner takes it for a command in the log of a job. If `text` has more than `limit` characters,
    the result is cut, and ends with `…` and the length of `text`. A secret of `hide_in_errors` is hidden before the
    cut, which could leave a part of it.
    """
    text = hide_secrets(text)
    escaped_text = _NO_ASCII.sub(lambda match: _escape_unclear(match.group()), text[: limit + 1])
    escaped_text = escaped_text.replace("##[", "## [")
    return escaped_text if len(text) <= limit else f"{escaped_text[:limit]}… ({len(text)} characters)"


def _escape_unclear(character: str) -> str:
    """Return a character if it is clear, and otherwise its escape.

    Punctuation, symbols, the Latin letters of alphabets and wide letters such as Chinese are clear. Other letters, characters of
    full width and characters that Unicode equates with ASCII can look like ASCII, or change the direction of the text. Marks,
    fillers and blank symbols can be invisible.
    """
    name, category = unicodedata.name(character, ""), unicodedata.category(character)
    width = unicodedata.east_asian_width(character)
    parts = unicodedata.normalize("NFD", character)
    if category.startswith("L"):
        is_alphabetic = name.startswith("LATIN ") and (character < _PHONETIC_LETTERS or parts != character)
        is_clear = is_alphabetic or (width == "W" and "FILLER" not in name)
    else:
        is_clear = category[0] in "PS" and width != "F" and name not in _BLANK_SYMBOLS and not parts.isascii()
    if is_clear and unicodedata.bidirectional(character) not in ("R", "AL", "AN"):
        return character
    return character.encode("unicode_escape").decode("ascii")


def quote_value(value: object) -> str:
    """Return a value as text for a message.

    A string is quoted, escaped and cut. For a mapping or a list, the text only names the type. Typographic quotes around a
    string stay, with an advice.
    """
    if isinstance(value, str):
        if match := _TYPOGRAPHIC_QUOTES.fullmatch(value):
            return f"{match[1]}{escape_unprintable(match[2])}{match[3]} with typographic quotes (write plain quotes)"
        return f"'{escape_unprintable(value)}'"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return escape_unprintable(str(value), 40)


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 file`, `3,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def pronoun_for(count: int) -> str:
    """Return the pronoun for a count: `it` or `them`."""
    return "it" if count == 1 else "them"


def format_field(field: FieldPath) -> str:
    """Return `('spec', 'storages', 0, 'name')` as `spec.storages[0].name`."""
    text = ""
    for part in field:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{escape_unprintable(part, 60)}" if text else escape_unprintable(part, 60)
    return text or "(file)"


class Finding(NamedTuple):
    """A fault in a field of a file. The line of the fault is not known yet.

    `related` are the other files that cause the fault or are affected by it. The fault is reported to the owners of
    `path` and of the `related` files.
    """

    path: str
    field: FieldPath
    message: str
    rule: str
    warning: bool = False
    related: tuple[str, ...] = ()
    points_at_key: bool = False


class Problem(NamedTuple):
    """A finding with its line and column. Both start at 1, and a column is one character."""

    path: str
    line: int
    column: int
    field: str
    message: str
    rule: str
    warning: bool = False
    related: tuple[str, ...] = ()

    @property
    def severity(self) -> Literal["error", "warning"]:
        """The severity as text."""
        return "warning" if self.warning else "error"

    def __str__(self) -> str:
        word = "warning: " if self.warning else ""
        place = f"{escape_unprintable(self.path, 400)}:{self.line}:{self.column}"
        return f"{place}: {self.field}: {word}{self.message} [{self.rule}]"

    def touches(self, paths: Iterable[str]) -> bool:
        """Return whether a file in `paths` (files or folders) causes this problem or is affected by it."""
        own = (self.path, *self.related)
        return any(own_path == path or own_path.startswith(f"{path}/") for path in paths for own_path in own)


class AllotmentError(Exception):
    """The base of the expected errors that end a command. `exit_code` is the exit status of the process."""

    exit_code = 1

    def __str__(self) -> str:
        return hide_secrets(super().__str__())


class IsolationBroken(AllotmentError):
    """A rendered object exceeds its owner's permissions. This is a bug in Allotment, so nothing is written."""

    exit_code = 3


class OperationRefused(AllotmentError):
    """The command refuses the request. The message states the remedy."""

    exit_code = 2
