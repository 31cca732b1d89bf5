"""Fit the lines and tables of a plan into the width of a terminal.

Cells that do not fit go below their row; no cell is cut. If the output is a pipe, the width is unlimited.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.reports.plan.rows import Table

MAX_ROWS = 200  # per table
MIN_WIDTH = 40  # columns; a narrower terminal is treated as this wide
_GAP = 2
_CONTINUATION_INDENT = "      "


class Line(NamedTuple):
    """A line with its style: title, good, bad, warn, dim, or none."""

    text: str
    style: str = ""


def wrap_text(text: str, width: int | None) -> list[str]:
    """Return a text as lines of at most `width` columns. Longer words are not split, so that a path can be copied."""
    if width is None or len(text) <= width:
        return [text]
    begin = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.lstrip(),
        max(width, MIN_WIDTH),
        initial_indent=begin,
        subsequent_indent=f"{begin}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def table_lines(table: Table, width: int | None) -> Iterator[Line]:
    """Yield the lines of a table.

    If the table is too wide, its long columns, and as many other columns as necessary, go below each row.
    """
    rows = list(table.rows[:MAX_ROWS])
    widths = _column_widths(table, rows)
    fitting_columns = (
        len(widths)
        if width is None or _total_width(widths) <= width
        else _count_fitting_columns(widths[: table.short_columns], width)
    )
    yield Line(table.title, "title")
    yield Line(_align_cells(table, table.heads[:fitting_columns], widths), "dim")
    for at, row in enumerate(rows):
        style = table.styles[at] if at < len(table.styles) else ""
        yield from (Line(text, style) for text in _row_lines(table, row, widths, fitting_columns, width))
    if hidden := len(table.rows) - len(rows) + table.hidden_rows:
        yield Line(f"  and {hidden:,} more")
    for row in table.total_rows:
        yield from (Line(text, "title") for text in _row_lines(table, row, widths, fitting_columns, width))
    for words in table.note.splitlines():
        yield from (Line(text, "warn" if words.startswith("⚠") else "dim") for text in wrap_text(f"  {words}", width))


def _column_widths(table: Table, rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(len(row[at]) for row in (table.heads, *rows, *table.total_rows)) for at in range(len(table.heads))]


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * len(widths)


def _count_fitting_columns(widths: Sequence[int], width: int) -> int:
    """Return the number of leading columns that fit, at least 1."""
    return next((count for count in range(len(widths), 1, -1) if _total_width(widths[:count]) <= width), 1)


def _align_cells(table: Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(
        " " * _GAP + (cell.rjust(width) if at in table.numeric_columns else cell.ljust(width))
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ).rstrip()


def _row_lines(
    table: Table, row: tuple[str, ...], widths: Sequence[int], fitting_columns: int, width: int | None
) -> Iterator[str]:
    """Yield a row and, below it, the cells that do not fit.

    Below the row, the short cells come first, on one line with their heads. Each long cell follows on its own line.
    """
    yield _align_cells(table, row[:fitting_columns], widths)
    below = zip(
        table.heads[fitting_columns : table.short_columns], row[fitting_columns : table.short_columns], strict=True
    )
    if named := ", ".join(f"{head} {cell}" for head, cell in below if cell):
        yield from wrap_text(f"{_CONTINUATION_INDENT}{named}", width)
    for cell in row[max(fitting_columns, table.short_columns) :]:
        if cell:
            yield from wrap_text(f"{_CONTINUATION_INDENT}{cell}", width)
