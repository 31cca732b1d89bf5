"""Converts problems to the diagnostics that an editor shows, each with a range in the text of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import yaml
from lsprotocol.types import Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, Position, Range

from allotment.declared import documents
from allotment.declared.encoding import MAX_BYTES
from allotment.editor.text_positions import TextPositions
from allotment.problems import Problem, format_field

SOURCE = "allot"
MAX_RELATED = 5  # a diagnostic names at most this many other files
_FILE = format_field(())
_FILE_START = Range(Position(0, 0), Position(0, 0))


def build_diagnostics(
    problems: Iterable[Problem], positions: TextPositions, uri_of: Callable[[str], str]
) -> list[Diagnostic]:
    """Return the diagnostics of one file. `uri_of` returns the URI of a path, for the other files of a problem."""
    ends = find_scalar_ends(positions.text)
    return [
        Diagnostic(
            range=find_range(problem, positions, ends),
            message=problem.message if problem.field == _FILE else f"{problem.field}: {problem.message}",
            severity=DiagnosticSeverity.Warning if problem.warning else DiagnosticSeverity.Error,
            code=problem.rule,
            source=SOURCE,
            related_information=[
                DiagnosticRelatedInformation(
                    Location(uri_of(path), _FILE_START),
                    f"this file contributes to the problem [{problem.rule}]",
                )
                for path in problem.related[:MAX_RELATED]
            ]
            or None,
        )
        for problem in problems
    ]


def find_range(problem: Problem, positions: TextPositions, ends: dict[int, int]) -> Range:
    """Return the range of a problem: the key or value at its position, or else the rest of the line.

    `ends` maps the start of each scalar to its end (`find_scalar_ends`). A scalar of several lines ends with its first
    line in the range.
    """
    start, line_end = positions.find_offset(problem.line, problem.column), positions.line_end(problem.line)
    if problem.field.startswith("(") and start == 0:
        return positions.to_range(0, line_end)
    end = min(ends.get(start, line_end), line_end)
    text = positions.text[start:end].rstrip()
    if not text:  # an empty range would be invisible
        line_start = positions.find_offset(problem.line, 1)
        return positions.to_range(line_start, max(line_start, line_end))
    return positions.to_range(start, start + len(text))


def find_scalar_ends(text: str) -> dict[int, int]:
    """Return the end of each key and value by its start, up to the first syntax error, as offsets."""
    ends: dict[int, int] = {}
    if len(text) > MAX_BYTES:
        return ends
    try:
        for count, event in enumerate(documents.parse_events(text)):
            if count > documents.MAX_EVENTS:
                break
            if type(event) is yaml.ScalarEvent:
                start: Any = event.start_mark
                end: Any = event.end_mark
                ends[start.index] = end.index
    except (yaml.YAMLError, ValueError):  # ValueError: a lone surrogate can't be encoded
        pass
    return ends
