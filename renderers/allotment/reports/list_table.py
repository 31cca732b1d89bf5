"""Writes rows as a table or as names, sorted by a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from rich.text import Text

from allotment.problems import OperationRefused, escape_unprintable, quote_value
from allotment.reports.sheets import MAX_ALIGNED, Sheet

R = TypeVar("R")


class ListColumn(NamedTuple, Generic[R]):
    """A column of a list.

    `name` is the value of --sort-by. The head of the column is `title`, by default the name. `text` returns a cell.
    `sort_key` returns the value that orders the rows; without it, the text orders them. A row with the value None comes
    last. A `wide` column is only in the wide table. `style` returns the style of a cell for a terminal. A `long` column has
    a sentence or a URL.
    """

    name: str
    text: Callable[[R], str]
    sort_key: Callable[[R], Any] | None = None
    wide: bool = False
    long: bool = False
    style: Callable[[R], str] | None = None
    title: str = ""

    @property
    def head(self) -> str:
        """The head of the column."""
        return self.title or self.name.upper().replace("-", " ")


def sort_rows(rows: Iterable[R], columns: Sequence[ListColumn[R]], sort_by: str | None) -> list[R]:
    """Return rows, sorted by a column; in descending order if its name starts with a minus sign.

    Rows with the same value keep their order, and rows without a value come last. Without `sort_by`, the order stays.
    Raises OperationRefused if there is no such column.
    """
    if sort_by is None:
        return list(rows)
    name = sort_by.removeprefix("-").lower()
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        from allotment.declared.reading import suggest_name

        suggestion = suggest_name(name, [column.name for column in columns])
        raise OperationRefused(f"no column is named {quote_value(name)}{suggestion}")
    keyed_rows = [((column.sort_key or column.text)(row), row) for row in rows]
    present = [pair for pair in keyed_rows if pair[0] is not None]
    present.sort(key=lambda pair: pair[0], reverse=sort_by.startswith("-"))
    return [row for _, row in present] + [row for key, row in keyed_rows if key is None]


def build_sheet(rows: Iterable[R], columns: Sequence[ListColumn[R]], *, wide: bool) -> Sheet:
    """Return a table for a terminal; long columns come last."""
    columns = [column for column in columns if wide or not column.wide]
    columns.sort(key=lambda column: column.long)
    sheet = Sheet(*(column.head for column in columns), long=[column.head for column in columns if column.long])
    for row in rows:
        sheet.add_row(
            *(
                Text(_cell(column, row), style=column.style(row) if column.style is not None else "")
                for column in columns
            )
        )
    return sheet


def format_table(rows: Sequence[R], columns: Sequence[ListColumn[R]], *, wide: bool) -> str:
    """Return the table as text for a pipe, as `build_sheet` prints it there, but faster for many rows."""
    columns = [column for column in columns if wide or not column.wide]
    columns.sort(key=lambda column: column.long)
    filled = []
    for column in columns:
        cells = [column.head, *(_cell(column, row) for row in rows)]
        width = max(map(len, cells))
        width = min(width, MAX_ALIGNED) if column.long else width
        filled.append([f"{cell.ljust(width)}   " for cell in cells])
    return "".join(f"{''.join(line).rstrip()}\n" for line in zip(*filled, strict=True))


def _cell(column: ListColumn[R], row: R) -> str:
    return escape_unprintable(column.text(row), 400)
