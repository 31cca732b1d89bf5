"""Positions in a text: lines of an editor and of a problem, and characters of one or several code units."""

from __future__ import annotations

import pytest
from lsprotocol.types import Position

from allotment.editor.text_positions import TextPositions

TEXT = "a: \N{ROCKET}b\r\nä: c\n\nlast"


@pytest.mark.parametrize(
    ("encoding", "columns"), [("utf-16", [0, 3, 5, 6]), ("utf-8", [0, 3, 7, 8]), ("utf-32", [0, 3, 4, 5])]
)
def test_columns_count_code_units(encoding: str, columns: list[int]) -> None:
    positions = TextPositions(TEXT, encoding)
    offsets = [0, 3, 4, 5]
    assert [positions.to_position(offset) for offset in offsets] == [Position(0, column) for column in columns]
    assert [positions.to_offset(Position(0, column)) for column in columns] == offsets


def test_every_offset_has_a_position_that_leads_back() -> None:
    positions = TextPositions(TEXT)
    for offset in range(len(TEXT) + 1):
        if TEXT[offset : offset + 1] != "\n" or TEXT[offset - 1] != "\r":  # no position is within a line break
            assert positions.to_offset(positions.to_position(offset)) == offset


@pytest.mark.parametrize(("position", "offset"), [((0, 99), 5), ((9, 0), len(TEXT)), ((3, 99), len(TEXT)), ((0, 4), 4)])
def test_a_position_outside_becomes_the_nearest(position: tuple[int, int], offset: int) -> None:
    assert TextPositions(TEXT).to_offset(Position(*position)) == offset


@pytest.mark.parametrize(
    ("place", "offset"), [((1, 1), 0), ((1, 4), 3), ((2, 1), 7), ((2, 99), 11), ((9, 1), len(TEXT))]
)
def test_the_line_and_column_of_a_problem(place: tuple[int, int], offset: int) -> None:
    assert TextPositions(TEXT).find_offset(*place) == offset


def test_a_lone_carriage_return_ends_a_line_of_an_editor_but_not_of_a_problem() -> None:
    positions = TextPositions("a\rb\nc")
    assert positions.to_position(positions.find_offset(1, 3)) == Position(1, 0)
    assert positions.to_position(positions.find_offset(2, 1)) == Position(2, 0)


@pytest.mark.parametrize("text", ["", "\ud800", "\r", "\n", "\r\n"])
def test_texts_without_words(text: str) -> None:
    positions = TextPositions(text)
    assert positions.to_offset(positions.to_position(len(text))) <= len(text)
    assert 0 <= positions.find_offset(1, 1) <= positions.line_end(1) <= len(text)
