"""Reads the rows of a file that describes several resources: a CSV file with a header, or a YAML list of mappings."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from allotment.declared import documents
from allotment.problems import OperationRefused, escape_unprintable, pluralize, quote_value

MAX_ROWS = 5_000
_LIST_KEY = "rows"
_YAML_ENDINGS = (".yaml", ".yml")


class InputRow(NamedTuple):
    """A row: its line in the file, and its texts by column. An empty cell has no entry."""

    line: int
    values: dict[str, str]


class RowProblem(NamedTuple):
    """A problem of a row, with the line of the row in the file."""

    line: int
    message: str


class InputFile(NamedTuple):
    """The rows of a file with the name `source`, and the problems of the rows that are not in `rows`."""

    source: str
    rows: tuple[InputRow, ...]
    problems: tuple[RowProblem, ...]


def read_rows(source: str, data: bytes, columns: Collection[str], required: Collection[str]) -> InputFile:
    """Return the rows of a file. A name that ends in .yaml or .yml means YAML, any other name CSV.

    A row with an unknown column, or without a required value, is a problem. Raises OperationRefused if the file can't be
    read.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise OperationRefused(f"{escape_unprintable(source)} is not text in UTF-8: convert it first") from None
    rows = list(_read_yaml(source, data) if source.endswith(_YAML_ENDINGS) else _read_csv(source, data))
    if not 1 <= len(rows) <= MAX_ROWS:
        raise OperationRefused(f"{escape_unprintable(source)} has {len(rows):,} rows: write 1 to {MAX_ROWS:,}")
    problems = [problem for row in rows for problem in _check_row(row, columns, required)]
    lines = {problem.line for problem in problems}
    return InputFile(source, tuple(row for row in rows if row.line not in lines), tuple(problems))


def refuse_rows(source: str, problems: Sequence[RowProblem]) -> OperationRefused:
    """Return the error about the problems of a file, in the order of the lines."""
    name = escape_unprintable(source, 400)
    lines = [f"{name}:{problem.line}: {problem.message}" for problem in sorted(problems)]
    return OperationRefused("\n".join([f"{pluralize(len(lines), 'problem')}, so nothing was changed:", *lines]))


def _check_row(row: InputRow, columns: Collection[str], required: Collection[str]) -> Iterator[RowProblem]:
    for column in row.values:
        if column not in columns:
            message = f"there is no column {quote_value(column)}; the columns are {', '.join(columns)}"
            yield RowProblem(row.line, message)
    if missing := [column for column in required if column not in row.values]:
        yield RowProblem(row.line, f"no value for {', '.join(missing)}: write {'it' if len(missing) == 1 else 'them'}")


def _read_csv(source: str, data: bytes) -> Iterator[InputRow]:
    text = data.decode("utf-8-sig")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if len(set(header)) < len(header):
            raise refuse_rows(source, [RowProblem(reader.line_num, "two columns have the same name: rename a column")])
        for cells in reader:
            values = [cell.strip() for cell in cells]
            if not any(values):
                continue
            if len(values) > len(header):
                message = f"{len(values)} values for {pluralize(len(header), 'column')}: quote a value with a comma"
                raise refuse_rows(source, [RowProblem(reader.line_num, message)])
            named = zip(header, values, strict=False)  # a short row has empty cells at its end
            yield InputRow(reader.line_num, {column: value for column, value in named if value})
    except csv.Error as error:
        raise refuse_rows(source, [RowProblem(reader.line_num, f"this is not CSV: {error}")]) from None


def _read_yaml(source: str, data: bytes) -> Iterator[InputRow]:
    """Yield the items of a list. The list becomes the value of a key, because the reader accepts mappings only."""
    document_start = b"---\n"
    start = len(document_start) if data.startswith(document_start) else 0
    offset = 0 if start else 1  # the line of the key takes the place of the line `---`
    wrapped = f"{_LIST_KEY}:\n".encode() + data[start:]
    document = documents.read(wrapped)
    findings = [RowProblem(finding.line - offset, finding.message) for finding in document.findings]
    items = document.value.get(_LIST_KEY) if document.value is not None and not findings else None
    if findings and findings[0].line > 0:
        raise refuse_rows(source, findings)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise OperationRefused(f"{escape_unprintable(source)} is not a list of mappings: begin each row with `- name:`")
    positions = documents.find_positions(wrapped)
    for index, item in enumerate(items):
        line = positions[(_LIST_KEY, index)].line - offset
        groups = [key for key, value in item.items() if isinstance(value, (dict, list))]
        if groups:
            raise refuse_rows(source, [RowProblem(line, f"{quote_value(groups[0])} is not a single value")])
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in item.items()}
        yield InputRow(line, {key: value for key, value in texts.items() if value})
