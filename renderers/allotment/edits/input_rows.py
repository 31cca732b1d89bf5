"""Reads the rows of a file that describes several resources: a CSV file with a header, or a YAML list of mappings."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from allotment.declared import documents, encoding
from allotment.declared.reading import suggest_name
from allotment.problems import OperationRefused, escape_unprintable, pluralize, pronoun_for, quote_value

MAX_ROWS = 5_000
MAX_BYTES = 4_000_000  # bytes of a file; `encoding.MAX_BYTES` is the lower limit for YAML
_LIST_KEY = "rows"
_YAML_ENDINGS = (".yaml", ".yml")
_SEPARATOR = ";"  # between the values in a cell of CSV


class Columns(NamedTuple):
    """The columns of a file: all names, the names of those that need a value, and of those that have several values."""

    names: tuple[str, ...]
    required: tuple[str, ...]
    lists: tuple[str, ...] = ()


class InputRow(NamedTuple):
    """A row: its first line in the file, and its texts by column. An empty cell has no entry.

    `lists` has the columns that can have several values.
    """

    line: int
    values: dict[str, str]
    lists: dict[str, tuple[str, ...]]


class RowProblem(NamedTuple):
    """A problem of a row, with the line of the row in the file."""

    line: int
    message: str


class InputFile(NamedTuple):
    """The rows of a file with the name `source`, and the problems of the rows that are not in `rows`."""

    source: str
    rows: tuple[InputRow, ...]
    problems: tuple[RowProblem, ...]


def read_rows(source: str, data: bytes, columns: Columns) -> InputFile:
    """Return the rows of a file. A name that ends in .yaml or .yml means YAML, and .csv means CSV.

    In CSV, semicolons separate the values of a list. A row with an unknown column, or without a required value, is a
    problem. Raises OperationRefused if the file can't be read.
    """
    name = escape_unprintable(source, 400)
    if len(data) > MAX_BYTES:
        raise OperationRefused(f"{name} has more than {MAX_BYTES:,} bytes: split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OperationRefused(f"{name} is not text in UTF-8: convert it first") from None
    if source.lower().endswith(_YAML_ENDINGS):
        read = _read_yaml
    elif source.lower().endswith(".csv"):
        read = _read_csv
    else:
        raise OperationRefused(f"{name} has no name that ends in .csv, .yaml or .yml: rename it")
    rows = list(read(source, text, columns))
    if not 1 <= len(rows) <= MAX_ROWS:
        raise OperationRefused(f"{name} has {len(rows):,} rows: write 1 to {MAX_ROWS:,}")
    problems = [problem for row in rows for problem in _check_row(row, columns)]
    lines = {problem.line for problem in problems}
    return InputFile(source, tuple(row for row in rows if row.line not in lines), tuple(problems))


def refuse_rows(source: str, problems: Sequence[RowProblem]) -> OperationRefused:
    """Return the error about the problems of a file, in the order of the lines."""
    name = escape_unprintable(source, 400)
    lines = [f"{name}:{problem.line}: {problem.message}" for problem in sorted(problems)]
    return OperationRefused("\n".join([f"{pluralize(len(lines), 'problem')}, so nothing was changed:", *lines]))


def _check_row(row: InputRow, columns: Columns) -> Iterator[RowProblem]:
    for column in row.values:
        if column not in columns.names:
            yield RowProblem(row.line, _unknown_column(column, columns))
    if missing := [column for column in columns.required if column not in row.values]:
        yield RowProblem(row.line, f"no value for {', '.join(missing)}: write {pronoun_for(len(missing))}")


def _unknown_column(column: str, columns: Columns) -> str:
    return f"there is no column {quote_value(column)}{suggest_name(column, columns.names)}"


def _read_csv(source: str, text: str, columns: Columns) -> Iterator[InputRow]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(source, header, columns)
        line = reader.line_num + 1
        for cells in reader:
            values = [cell.strip() for cell in cells]
            if any(values):
                if len(values) != len(header):
                    message = f"{pluralize(len(values), 'value')} for {pluralize(len(header), 'column')}"
                    fix = (
                        "quote a value with a comma"
                        if len(values) > len(header)
                        else "write a comma for each empty value"
                    )
                    raise refuse_rows(source, [RowProblem(line, f"{message}: {fix}")])
                yield _build_csv_row(line, dict(zip(header, values, strict=True)), columns)
            line = reader.line_num + 1
    except csv.Error as error:
        raise refuse_rows(source, [RowProblem(reader.line_num, f"this is not CSV: {error}")]) from None


def _check_header(source: str, header: Sequence[str], columns: Columns) -> None:
    messages = [_unknown_column(column, columns) for column in header if column not in columns.names]
    if len(header) == 1 and ";" in header[0]:
        messages = ["the columns are separated by semicolons: separate them by commas"]
    if len(set(header)) < len(header):
        messages.append("two columns have the same name: rename a column")
    if messages:
        raise refuse_rows(source, [RowProblem(1, message) for message in messages])


def _build_csv_row(line: int, cells: dict[str, str], columns: Columns) -> InputRow:
    lists = {
        column: tuple(part.strip() for part in cells[column].split(_SEPARATOR) if part.strip())
        for column in columns.lists
        if cells.get(column)
    }
    values = {column: cell for column, cell in cells.items() if cell and column not in columns.lists}
    return InputRow(line, values, lists)


def _read_yaml(source: str, text: str, columns: Columns) -> Iterator[InputRow]:
    """Yield the items of a list. The list becomes the value of a key, because the reader accepts mappings only."""
    document_start = "---\n"
    offset = 0 if text.startswith(document_start) else 1  # the line of the key takes the place of the line `---`
    wrapped = f"{_LIST_KEY}:\n{text.removeprefix(document_start)}".encode()
    if len(wrapped) > encoding.MAX_BYTES:
        raise OperationRefused(
            f"{escape_unprintable(source, 400)} has more than {encoding.MAX_BYTES:,} bytes of YAML: split it, or write CSV"
        )
    document = documents.read(wrapped)
    findings = [RowProblem(finding.line - offset, finding.message) for finding in document.findings]
    if findings and findings[0].line > 0:
        raise refuse_rows(source, findings)
    items = document.value.get(_LIST_KEY) if document.value is not None and len(document.value) == 1 else None
    if findings or not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise OperationRefused(
            f"{escape_unprintable(source, 400)} is not a list of mappings: begin each row with `- name:`"
        )
    positions = documents.find_positions(wrapped)
    for index, item in enumerate(items):
        line = positions[(_LIST_KEY, index)].line - offset
        yield _build_yaml_row(source, line, item, columns)


def _build_yaml_row(source: str, line: int, item: dict[str, Any], columns: Columns) -> InputRow:
    values: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    for column, value in item.items():
        is_list = column in columns.lists
        parts = value if is_list and isinstance(value, list) else [value]
        if any(isinstance(part, (dict, list)) for part in parts):
            if column not in columns.names:
                raise refuse_rows(source, [RowProblem(line, _unknown_column(column, columns))])
            shape = "a list of single values" if is_list else "a single value"
            raise refuse_rows(source, [RowProblem(line, f"{quote_value(column)} is not {shape}")])
        texts = tuple(text for text in map(_format_scalar, parts) if text)
        if texts and is_list:
            lists[column] = texts
        elif texts:
            values[column] = texts[0]
    return InputRow(line, values, lists)


def _format_scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
