"""Lines and tables of a plan as a terminal is wide: what doesn't fit beside the rest stands below it, and nothing is cut.

Into a pipe a line is as long as it is.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from allotment.reports.plan.rows import Table

MAX_ROWS = 200  # of a table
MIN_WIDTH = 40  # columns that are reckoned with
_GAP = 2
_CONTINUATION_INDENT = "      "


class Line(NamedTuple):
    """A line, and how it is meant: title, good, bad, warn, dim, or nothing of these."""

    text: str
    style: str = ""


def wrap_text(text: str, width: int | None) -> list[str]:
    """Return a text as lines of a width, those that follow further in. A word stays whole, so that a path can be copied."""
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
    """Yield a table's lines. Where it doesn't fit, the columns that are `long`, and as many of the last others as must, stand
    below their row."""
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
    """Return how many of the first columns fit, one at least."""
    return next((count for count in range(len(widths), 1, -1) if _total_width(widths[:count]) <= width), 1)


def _align_cells(table: Table, cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(
        " " * _GAP + (cell.rjust(width) if at in table.numeric_columns else cell.ljust(width))
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ).rstrip()


def _row_lines(
    table: Table, row: tuple[str, ...], widths: Sequence[int], fitting_columns: int, width: int | None
) -> Iterator[str]:
    """Yield a row, and below it what doesn't stand beside: figures with their heads, then each long cell by itself."""
    yield _align_cells(table, row[:fitting_columns], widths)
    below = zip(
        table.heads[fitting_columns : table.short_columns], row[fitting_columns : table.short_columns], strict=True
    )
    if named := ", ".join(f"{head} {cell}" for head, cell in below if cell):
        yield from wrap_text(f"{_CONTINUATION_INDENT}{named}", width)
    for cell in row[max(fitting_columns, table.short_columns) :]:
        if cell:
            yield from wrap_text(f"{_CONTINUATION_INDENT}{cell}", width)
