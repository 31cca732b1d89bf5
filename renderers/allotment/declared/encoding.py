"""Decode a file's bytes, and reject characters that a reviewer can't see or that parsers interpret differently."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from allotment.problems import FieldPath

MAX_BYTES = 256 * 1024
SKIP_MARKER = "+argocd:skip-file-rendering"

_FORBIDDEN_CHARACTERS = (
    "[^\n\r\t\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"  # characters that YAML does not allow
    "|[\u2028\u2029\ufeff]"  # line breaks to some parsers, and the byte order mark
    "|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # characters that reorder the displayed text
    "|\r(?!\n)"
)


@functools.cache
def _compile_forbidden_characters() -> re.Pattern[str]:
    """Return the compiled pattern. The compilation takes 3 ms, and most repositories have plain text only."""
    return re.compile(_FORBIDDEN_CHARACTERS)


class LocatedFinding(NamedTuple):
    """A finding in the text of a file, with its line and column."""

    message: str
    rule: str
    line: int
    column: int
    field: FieldPath = ()


class UnreadableDeclaration(Exception):
    """Raised if a file can't be read further. `finding` is the reason."""

    def __init__(self, message: str, rule: str, line: int, column: int, field: FieldPath = ()) -> None:
        super().__init__(message)
        self.finding = LocatedFinding(message, rule, line, column, field)


def decode_text(data: bytes) -> str:
    """Return the text of a file.

    Raises UnreadableDeclaration if the file is too large or not UTF-8, or contains a tab,
    SKIP_MARKER, or a character that `_FORBIDDEN_CHARACTERS` matches.
    """
    if len(data) > MAX_BYTES:
        raise UnreadableDeclaration(
            f"the file has more than {MAX_BYTES} bytes: split it, or keep data elsewhere", "size", 1, 1
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00")):
        raise UnreadableDeclaration("the file is UTF-16 or binary: save it as UTF-8", "encoding", 1, 1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8")
        line, column = _line_column(good, len(good))
        message = f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8"
        raise UnreadableDeclaration(message, "encoding", line, column) from None
    plain = text.isascii() and text.replace("\n", "").isprintable()
    if not plain and (bad := _compile_forbidden_characters().search(text)):
        line, column = _line_column(text, bad.start())
        code = f"U+{ord(bad.group()[0]):04X}"
        message = (
            f'character {code} is not allowed: remove it, or write "\\u{ord(bad.group()[0]):04x}" in double quotes'
        )
        raise UnreadableDeclaration(message, "encoding", line, column)
    if (tab := text.find("\t")) >= 0:  # parsers interpret tabs differently, and people cannot see them
        line, column = _line_column(text, tab)
        raise UnreadableDeclaration(
            'a tab can\'t stand in YAML: use spaces, or write "\\t" in double quotes', "tab", line, column
        )
    if (at := text.find(SKIP_MARKER)) >= 0:
        line, column = _line_column(text, at)
        raise UnreadableDeclaration(f"'{SKIP_MARKER}' makes Argo CD drop a file: remove it", "reserved", line, column)
    return text


def _line_column(text: str, index: int) -> tuple[int, int]:
    prefix = text[:index].replace("\r\n", "\n")
    return prefix.count("\n") + 1, index - (text.rfind("\n", 0, index) + 1) + 1
