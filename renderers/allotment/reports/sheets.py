"""Print rows in columns on a terminal. Columns that do not fit go below their row, and nothing is cut."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Span, Text

from allotment.problems import escape_unprintable

NARROW_WIDTH = 100  # columns: in a narrower terminal, long cells always get their own line
MAX_ALIGNED = 80  # characters of a long cell in a pipe; a longer cell doesn't widen its column
MAX_LENGTH = 4_000  # characters of a sentence; Allotment's own sentences are shorter
_GAP = 3
_NARROW_GAP = 2  # in a narrow terminal
_INDENT = "    "


def sanitize_value(value: object) -> Text:
    """Return a value as text that cannot control the terminal."""
    return Text(escape_unprintable(str(value), 400))


def sanitize_sentence(text: str) -> Text:
    """Return a sentence as text that cannot control the terminal, up to MAX_LENGTH characters."""
    return Text(escape_unprintable(text, MAX_LENGTH))


class Sheet:
    """Rows under column heads. The columns in `long` come last, and contain sentences or URLs.

    If the terminal has fewer than NARROW_WIDTH columns, or if a row is too wide, each long cell gets a line below its
    row. Other cells that do not fit go below the row too, with their heads. In a pipe, each row is one line.
    """

    def __init__(self, *heads: str, long: Collection[str] = ()) -> None:
        self._heads = [Text(head) for head in heads]
        self._short = len(heads) - len(long)
        self._rows: list[Sequence[Text]] = []

    def add_row(self, *cells: Text) -> None:
        """Add a row with a cell for each head."""
        self._rows.append(cells)

    def with_numbers(self) -> Sheet:
        """Return a sheet with the numbers of the rows, from 1, in a new first column."""
        sheet = Sheet("#", long=[head.plain for head in self._heads[self._short :]])
        sheet._heads += self._heads  # another object of this class
        sheet._short = self._short + 1
        for number, row in enumerate(self._rows, 1):
            sheet.add_row(sanitize_value(number), *row)
        return sheet

    def __bool__(self) -> bool:
        """Return whether the sheet has rows."""
        return bool(self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text | Segment]:
        """Yield the lines. They fit the width of a terminal; in a pipe their length is unlimited."""
        lines = self.render_lines(_console_width(console, options))
        if console.color_system is None:  # without styles, rich needs no time to split and join each line
            yield from (Segment(f"{line.plain}\n") for line in lines)
        else:
            yield from lines

    def render_lines(self, width: int | None) -> Iterator[Text]:
        """Yield the lines for a terminal with `width` columns. `width` is None if the output is not a terminal."""
        rows = [self._heads, *self._rows]
        widths = [max(_cell_width(row[at].plain) for row in rows) for at in range(len(self._heads))]
        natural = sum(widths) + _GAP * (len(widths) - 1)
        if width is None or (width >= NARROW_WIDTH and natural <= width):
            short = self._short if width is None else len(widths)
            widths = [*widths[:short], *(min(width, MAX_ALIGNED) for width in widths[short:])]
            yield from (_align_cells(row, widths, _GAP) for row in rows)
            return
        gap = _GAP if width >= NARROW_WIDTH else _NARROW_GAP
        fitting_columns = self._count_fitting_columns(widths, gap, width)
        yield _align_cells(self._heads[:fitting_columns], widths, gap)
        for row in self._rows:
            yield _align_cells(row[:fitting_columns], widths, gap)
            named = zip(self._heads[fitting_columns : self._short], row[fitting_columns : self._short], strict=True)
            yield from _long_cell_lines(
                Text("  ".join(f"{head.plain}: {cell.plain}" for head, cell in named if cell.plain)), width
            )
            for cell in row[self._short :]:
                yield from _long_cell_lines(cell, width)

    def _count_fitting_columns(self, widths: Sequence[int], gap: int, width: int) -> int:
        """Return the number of short columns that fit beside each other, at least 1."""
        ends = [sum(widths[:number]) + gap * (number - 1) for number in range(1, self._short + 1)]
        return max(1, sum(end <= width for end in ends))


def terminal_width() -> int | None:
    """Return the width of standard output if it is a terminal, else None."""
    return Console().width if sys.stdout.isatty() else None


def _console_width(console: Console, options: ConsoleOptions) -> int | None:
    """Return the width of a terminal; None for other output, even if colors are forced."""
    return options.max_width if console.file.isatty() else None


def _align_cells(cells: Sequence[Text], widths: Sequence[int], gap: int) -> Text:
    """Return a line with the cells, as rich's `Text.append_text` joins them, but at once."""
    pieces, spans, at = list[str](), list[Span](), 0
    for cell, width in zip(cells, widths, strict=False):
        text = cell.plain
        if cell.style:
            spans.append(Span(at, at + len(text), cell.style))
        spans += [Span(at + span.start, at + span.end, span.style) for span in cell.spans]
        piece = text + " " * (max(0, width - _cell_width(text)) + gap)
        pieces.append(piece)
        at += len(piece)
    line = Text("".join(pieces), spans=spans)
    line.rstrip()
    return line


def _cell_width(text: str) -> int:
    """Return the number of columns that a text takes up."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def _long_cell_lines(cell: Text, width: int) -> Iterator[Text]:
    """Yield the lines of a long cell. Words are not split, so a URL can be copied."""
    for line in _wrap_text(cell.plain, max(width, 40) - len(_INDENT)):
        yield Text(_INDENT + line, style=cell.style)


def _wrap_text(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


class FactList:
    """Names with values, one per line. If a value is too long for its line, it continues below."""

    def __init__(self, facts: Iterable[tuple[str, object]], longest: int = MAX_LENGTH) -> None:
        self._facts = [(f"{name}:", value) for name, value in facts if value != ""]
        self._longest = longest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines. They fit the width of a terminal; in a pipe their length is unlimited."""
        at = max((len(name) for name, _ in self._facts), default=0) + _GAP
        width = _console_width(console, options)
        room = max(width - at, 40) if width is not None else self._longest
        for name, value in self._facts:
            first, *more = _wrap_text(escape_unprintable(str(value), self._longest), room) or [""]
            yield Text.assemble((name, "bold"), " " * (at - len(name)), first)
            yield from (Text(" " * at + line) for line in more)


def print_output(renderable: RenderableType) -> None:
    """Print output within the width of a terminal; in a pipe, the output is not wrapped."""
    console = Console(highlight=False)
    console.print(renderable, soft_wrap=True)
