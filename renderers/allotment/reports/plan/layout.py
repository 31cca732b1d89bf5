"""Lines and tables of a plan as a terminal is wide: what doesn't fit beside the rest stands below it, and nothing is cut.

Into a pipe a line is as long as it is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.reports.plan.rows import Table

MOST_ROWS = 200  # of a table
NARROWEST = 40  # columns that are reckoned with
_GAP = 2
_BELOW = "      "


class Line(NamedTuple):
    """A line, and how it is meant: title, good, bad, warn, dim, or nothing of these."""

    text: str
    style: str = ""


def wrapped(text: str, width: int | None) -> list[str]:
    """Return a text as lines of a width, those that follow further in. A word stays whole, so that a path can be copied."""
    if width is None or len(text) <= width:
        return [text]
    begin = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.lstrip(),
        max(width, NARROWEST),
        initial_indent=begin,
        subsequent_indent=f"{begin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def lines_of(table: Table, width: int | None) -> Iterator[Line]:
    """Yield a table's lines. Where it doesn't fit, the columns that are `long`, and as many of the last others as must, stand
    below their row."""
    rows = list(table.rows[:MOST_ROWS])
    widths = _widths(table, rows)
    beside = len(widths) if width is None or _size(widths) <= width else _fitting(widths[: table.short], width)
    yield Line(table.title, "title")
    yield Line(_aligned(table, table.heads[:beside], widths), "dim")
    for at, row in enumerate(rows):
        style = table.styles[at] if at < len(table.styles) else ""
        yield from (Line(text, style) for text in _row(table, row, widths, beside, width))
    if hidden := len(table.rows) - len(rows) + table.hidden:
        yield Line(f"  and {hidden:,} more")
    for row in table.totals:
        yield from (Line(text, "title") for text in _row(table, row, widths, beside, width))
    for words in table.note.splitlines():
        yield from (Line(text, "warn" if words.startswith("⚠") else "dim") for text in wrapped(f"  {words}", width))


def _widths(table: Table, rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(len(row[at]) for row in (table.heads, *rows, *table.totals)) for at in range(len(table.heads))]


def _size(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * len(widths)


def _fitting(widths: Sequence[int], width: int) -> int:
    """Return how many of the first columns fit, one at least."""
    return next((count for count in range(len(widths), 1, -1) if _size(widths[:count]) <= width), 1)


def _aligned(table: Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(
        " " * _GAP + (cell.rjust(width) if at in table.figures else cell.ljust(width))
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ).rstrip()


def _row(table: Table, row: tuple[str, ...], widths: Sequence[int], beside: int, width: int | None) -> Iterator[str]:
    """Yield a row, and below it what doesn't stand beside: figures with their heads, then each long cell by itself."""
    yield _aligned(table, row[:beside], widths)
    below = zip(table.heads[beside : table.short], row[beside : table.short], strict=True)
    if named := ", ".join(f"{head} {cell}" for head, cell in below if cell):
        yield from wrapped(f"{_BELOW}{named}", width)
    for cell in row[max(beside, table.short) :]:
        if cell:
            yield from wrapped(f"{_BELOW}{cell}", width)
