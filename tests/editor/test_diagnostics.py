"""The range of a problem is the key or value at its position."""

from __future__ import annotations

import pytest

from allotment.editor.diagnostics import build_diagnostics
from allotment.editor.text_positions import TextPositions
from allotment.problems import Problem

TEXT = """\
kind: "GPU Instance" # comment
spec:
  description: >-
    two
    lines
  app: {name: a, version: 'b c'}
  size:

  broken: [a
"""


@pytest.mark.parametrize(
    ("line", "column", "field", "marked_text"),
    [
        (1, 7, "kind", '"GPU Instance"'),
        (1, 1, "kind", "kind"),
        (3, 16, "spec.description", ">-"),
        (6, 9, "spec.app", "name"),
        (6, 27, "spec.app.version", "'b c'"),
        (7, 3, "spec.size", "size"),
        (9, 11, "spec.broken", "[a"),
        (8, 1, "spec", ""),
        (1, 1, "(file)", 'kind: "GPU Instance" # comment'),
        (99, 9, "spec", ""),
    ],
)
def test_the_marked_text(line: int, column: int, field: str, marked_text: str) -> None:
    positions = TextPositions(TEXT)
    (diagnostic,) = build_diagnostics([Problem("a", line, column, field, "wrong", "rule")], positions, str)
    start, end = positions.to_offset(diagnostic.range.start), positions.to_offset(diagnostic.range.end)
    assert TEXT[start:end] == marked_text


def test_the_files_that_contribute_are_named_up_to_a_limit() -> None:
    problem = Problem("a", 1, 1, "(file)", "wrong", "rule", True, tuple(f"file-{number}" for number in range(9)))
    (diagnostic,) = build_diagnostics([problem], TextPositions(""), lambda path: f"file:///{path}")
    assert [each.location.uri for each in diagnostic.related_information or ()] == [
        f"file:///file-{number}" for number in range(5)
    ]
    assert (diagnostic.message, diagnostic.severity, diagnostic.code) == ("wrong", 2, "rule")
