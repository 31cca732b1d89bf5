"""Fix the form of a declaration where the intent is unambiguous: quotes, the schema line, a byte order mark."""

from __future__ import annotations

import json

from allotment.declared import documents
from allotment.declared.layout import DeclarationPath
from allotment.declared.reading import is_fixed_by_quotes, read_declaration
from allotment.problems import Problem

SCHEMA_PREFIX = "# yaml-language-server: $schema="
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_ROUNDS = 400  # enough for the largest file, with documents.MAX_FINDINGS fixes per round


def build_schema_line(path: str, kind: str) -> str:
    """Return the first line of a declaration, from which editors find its schema."""
    return f"{SCHEMA_PREFIX}{'../' * path.count('/')}schemas/{kind}.schema.json\n"


def is_fixable(problem: Problem) -> bool:
    """Return whether `autofix` solves a problem: a value that needs quotes, or a byte order mark."""
    is_mark = (problem.rule, problem.line, problem.column) == ("encoding", 1, 1) and "U+FEFF" in problem.message
    return is_mark or is_fixed_by_quotes(problem)


def autofix(path: str, data: bytes, spot: DeclarationPath) -> bytes:
    """Return a declaration with its schema line and without a byte order mark.

    It also quotes values that YAML readers interpret differently, and numbers where text is required. Other problems
    remain.
    """
    data = data.removeprefix(_BYTE_ORDER_MARK)
    for _ in range(_MAX_ROUNDS):  # one reading finds a limited number of problems
        if (changed := _quote_ambiguous_values(path, data, spot)) == data:
            break
        data = changed
    if data.startswith(SCHEMA_PREFIX.encode()) or documents.read(data).value is None:
        return data
    return build_schema_line(path, spot.kind.name).encode() + data


def _quote_ambiguous_values(path: str, data: bytes, spot: DeclarationPath) -> bytes:
    """Return a declaration in which the ambiguous values that one reading finds are quoted."""
    problems = [problem for problem in read_declaration(path, data, spot)[1] if is_fixed_by_quotes(problem)]
    if not problems:
        return data
    at = {(problem.line, problem.column) for problem in problems if problem.rule == "scalar"}
    at |= _value_positions(data, {(problem.line, problem.column) for problem in problems if problem.rule != "scalar"})
    text, parts, done = data.decode("utf-8"), [], 0
    for event in documents.find_plain_scalars(text):
        begin, end = event.start_mark, event.end_mark
        if (begin.line + 1, begin.column + 1) in at:
            parts += [text[done : begin.index], json.dumps(event.value, ensure_ascii=False)]
            done = end.index
    return "".join([*parts, text[done:]]).encode()


def _value_positions(data: bytes, positions: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the positions of the values with problems at these positions. A problem is at its value, or at the key if
    the value begins on a line below; the position of a block is that of its first key, so it is no value.
    """
    marks = documents.find_positions(data)
    keys = {(place.key_line, place.key_column) for path, place in marks.items() if path and isinstance(path[-1], str)}
    below = {
        (place.line, place.column)
        for place in marks.values()
        if place.line > place.key_line and (place.key_line, place.key_column) in positions
    }
    return (positions | below) - keys
