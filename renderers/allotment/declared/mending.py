"""Mends how a declaration is written where only one thing can be meant: quotes, the schema line, a byte order mark."""

from __future__ import annotations

from allotment.declared import documents
from allotment.declared.layout import Meaning
from allotment.declared.reading import read_declaration

SCHEMA = "# yaml-language-server: $schema="
_MARK = b"\xef\xbb\xbf"
_MOST = 200  # values of a file


def schema_line(path: str, kind: str) -> str:
    """Return the first line of a declaration, by which editors find its schema."""
    return f"{SCHEMA}{'../' * path.count('/')}schemas/{kind}.schema.json\n"


def mended(path: str, data: bytes, spot: Meaning) -> bytes:
    """Return a declaration with its values quoted that two readers of YAML take for different things or that are
    numbers where text is asked for, with the line that names its schema, and without a byte order mark.

    Whatever else is wrong stays as it is.
    """
    data = data.removeprefix(_MARK)
    for _ in range(_MOST):
        changed = _quoted_once(path, data, spot)
        if changed == data:
            break
        data = changed
    if data.startswith(SCHEMA.encode()) or documents.read(data).value is None:
        return data
    return schema_line(path, spot.kind.name).encode() + data


def _quoted_once(path: str, data: bytes, spot: Meaning) -> bytes:
    """Return a declaration with the first such value quoted, all others found by reading it again."""
    for one in read_declaration(path, data, spot)[1]:
        is_number = one.rule == "type" and one.message.endswith("is no text: write it in quotes")
        if one.rule != "scalar" and not is_number:
            continue
        lines = data.decode("utf-8").split("\n")
        line = lines[one.line - 1]
        text = _scalar_at(line[one.column - 1 :])
        if text:
            begin = one.column - 1
            lines[one.line - 1] = f'{line[:begin]}"{text}"{line[begin + len(text) :]}'
            return "\n".join(lines).encode()
    return data


def _scalar_at(rest: str) -> str:
    """Return the plain scalar that a line's rest begins with: a word, a number, a date or a time."""
    end = 0
    while end < len(rest) and (rest[end].isalnum() or rest[end] in "+-._" or _colon_within(rest, end)):
        end += 1
    return rest[:end]


def _colon_within(rest: str, at: int) -> bool:
    """Return whether a colon lies within a time such as 1:30, rather than behind a key."""
    return rest[at] == ":" and rest[at + 1 : at + 2].isdigit()
