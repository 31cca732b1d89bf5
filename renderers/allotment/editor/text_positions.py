"""Converts positions in a text between the lines and columns of problems, offsets, and the positions of an editor."""

from __future__ import annotations

import bisect
import re

from lsprotocol.types import Position, PositionEncodingKind, Range

_EDITOR_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_BYTES_PER_UNIT = {
    PositionEncodingKind.Utf8: ("utf-8", 1),
    PositionEncodingKind.Utf16: ("utf-16-le", 2),
    PositionEncodingKind.Utf32: ("utf-32-le", 4),
}


class TextPositions:
    """The positions in a text.

    An offset is a number of characters. A position of an editor has a line and a column, which start at 0. The column
    counts code units of `encoding`. Positions outside the text become the nearest position inside it.
    """

    def __init__(self, text: str, encoding: str = PositionEncodingKind.Utf16) -> None:
        self.text = text
        self._codec, self._unit_bytes = _BYTES_PER_UNIT[PositionEncodingKind(encoding)]
        ends = list(_EDITOR_LINE_ENDS.finditer(text))
        self._starts = [0, *(end.end() for end in ends)]
        self._ends = [*(end.start() for end in ends), len(text)]
        self._newlines = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]

    def to_position(self, offset: int) -> Position:
        """Return an offset as a position of an editor."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._starts, offset) - 1
        return Position(line, self._count_units(self.text[self._starts[line] : min(offset, self._ends[line])]))

    def to_range(self, start: int, end: int) -> Range:
        """Return the characters between two offsets as a range of an editor."""
        return Range(self.to_position(start), self.to_position(end))

    def to_offset(self, position: Position) -> int:
        """Return a position of an editor as an offset."""
        if position.line >= len(self._starts):
            return len(self.text)
        start, end = self._starts[position.line], self._ends[position.line]
        units = 0
        for offset in range(start, end):
            if units >= position.character:
                return offset
            units += self._count_units(self.text[offset])
        return end

    def find_offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column of a problem, which start at 1. Only line feeds separate such lines."""
        if line > len(self._newlines):
            return len(self.text)
        return min(self._newlines[line - 1] + column - 1, self.line_end(line))

    def line_end(self, line: int) -> int:
        """Return the offset of the end of a line, which starts at 1, without its line break."""
        end = self._newlines[line] - 1 if line < len(self._newlines) else len(self.text)
        return end - 1 if self.text[max(end - 1, 0) : end] == "\r" else end

    def _count_units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._unit_bytes
