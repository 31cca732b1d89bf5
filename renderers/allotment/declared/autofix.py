"""Fix the faults that have only one remedy: the notation of values, a missing schema line, and a byte order mark."""

from __future__ import annotations

import json

from allotment.declared import documents
from allotment.declared.field_types import find_field_type
from allotment.declared.layout import DeclarationPath
from allotment.declared.reading import is_fixed_by_quotes, read_declaration
from allotment.problems import Problem

SCHEMA_PREFIX = "# yaml-language-server: $schema="
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The words that a YAML 1.1 parser reads as a boolean.
_BOOLEANS = dict.fromkeys(("y", "yes", "on", "true"), "true") | dict.fromkeys(("n", "no", "off", "false"), "false")
_MAX_ROUNDS = 400  # enough for the largest file: a round fixes documents.MAX_FINDINGS values


def build_schema_line(path: str, kind: str) -> str:
    """Return the first line of a declaration. Editors find the schema by this line."""
    return f"{SCHEMA_PREFIX}{'../' * path.count('/')}schemas/{kind}.schema.json\n"


def is_fixable(problem: Problem) -> bool:
    """Return whether `autofix` solves a problem: missing quotes, or a byte order mark."""
    is_mark = (problem.rule, problem.line, problem.column) == ("encoding", 1, 1) and "U+FEFF" in problem.message
    return is_mark or is_fixed_by_quotes(problem)


def autofix(path: str, data: bytes, declaration_path: DeclarationPath) -> bytes:
    """Return a declaration with its schema line, with unambiguous values, and without a byte order mark.

    Quotes are added to values that YAML parsers interpret differently, and to numbers in fields that require text. In a
    field that requires true or false, a word such as `yes` or `off` becomes true or false. Other problems remain.
    """
    data = data.removeprefix(_BYTE_ORDER_MARK)
    for _ in range(_MAX_ROUNDS):  # a round finds at most MAX_FINDINGS problems
        if (changed := _quote_ambiguous_values(path, data, declaration_path)) == data:
            break
        data = changed
    if data.startswith(SCHEMA_PREFIX.encode()) or documents.read(data).value is None:
        return data
    return build_schema_line(path, declaration_path.kind.name).encode() + data


def _quote_ambiguous_values(path: str, data: bytes, declaration_path: DeclarationPath) -> bytes:
    """Read a declaration once, and return it with the values and keys in a notation that has one meaning."""
    problems = [problem for problem in read_declaration(path, data, declaration_path)[1] if is_fixed_by_quotes(problem)]
    if not problems:
        return data
    at = {(problem.line, problem.column) for problem in problems if problem.rule == "scalar"}
    at |= _value_positions(data, {(problem.line, problem.column) for problem in problems if problem.rule != "scalar"})
    text, parts, done = data.decode("utf-8"), [], 0
    wrong = [
        (position, event)
        for event in documents.find_plain_scalars(text)
        if (position := (event.start_mark.line + 1, event.start_mark.column + 1)) in at
    ]
    has_boolean_word = any(event.value.lower() in _BOOLEANS for _, event in wrong)
    booleans = _boolean_positions(data, declaration_path) if has_boolean_word else set()
    for position, event in wrong:
        boolean = _BOOLEANS.get(event.value.lower()) if position in booleans else None
        parts += [text[done : event.start_mark.index], boolean or json.dumps(event.value, ensure_ascii=False)]
        done = event.end_mark.index
    return "".join([*parts, text[done:]]).encode()


def _boolean_positions(data: bytes, declaration_path: DeclarationPath) -> set[tuple[int, int]]:
    """Return the positions of the values in fields that require true or false."""
    return {
        (place.line, place.column)
        for field, place in documents.find_positions(data).items()
        if (field_type := find_field_type(declaration_path.kind.model, field)) is not None
        and field_type.annotation is bool
    }


def _value_positions(data: bytes, positions: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the positions of the values that have problems, from the positions of the problems.

    A problem is at the position of its value. If the value starts on a later line than its key, the problem is at the
    position of the key. The position of a mapping is the position of its first key. The result excludes the positions
    of mappings, because a mapping is not a scalar and gets no quotes.
    """
    marks = documents.find_positions(data)
    keys = {(place.key_line, place.key_column) for path, place in marks.items() if path and isinstance(path[-1], str)}
    below = {
        (place.line, place.column)
        for place in marks.values()
        if place.line > place.key_line and (place.key_line, place.key_column) in positions
    }
    return (positions | below) - keys
