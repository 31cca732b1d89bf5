"""Reads the rows of a file that describes many new instances: a YAML list, or CSV with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any, NamedTuple

from allotment.declared import documents
from allotment.declared.reading import suggest_name
from allotment.edits.instance_creation import InstanceOptions, NewInstance
from allotment.problems import OperationRefused, escape_unprintable, quote_value

MAX_ROWS = 1000
_NAME = "name"
_SEPARATOR = ";"  # between the values of a cell of CSV
_REPEATABLE = ("port", "storage", "new-storage", "env", "label", "access")
_FIELDS = {"port": "ports", "storage": "storages", "new-storage": "new_storages", "label": "labels"}
COLUMNS = (
    _NAME,
    *(
        next((column for column, field in _FIELDS.items() if field == name), name.replace("_", "-"))
        for name in InstanceOptions._fields
    ),
)


class InstanceRow(NamedTuple):
    """A new instance, and the place of its description for messages, such as `instances.csv:3`."""

    place: str
    instance: NewInstance


def read_rows(name: str, data: bytes, defaults: InstanceOptions) -> list[InstanceRow]:
    """Return the instances in a file. An option that a row lacks has its value of `defaults`.

    Raises OperationRefused with a line for each problem of the file.
    """
    rows = _read_csv(name, data) if name.lower().endswith(".csv") else _read_yaml(name, data)
    if not 1 <= len(rows) <= MAX_ROWS:
        raise OperationRefused(f"{escape_unprintable(name)} has {len(rows)} rows: write 1 to {MAX_ROWS}")
    instances, problems = [], list[str]()
    for line, values in rows:
        place = f"{escape_unprintable(name)}:{line}"
        try:
            instances.append(InstanceRow(place, _build_instance(values, defaults)))
        except OperationRefused as error:
            problems += [f"{place}: {text}" for text in str(error).splitlines()]
    if problems:
        raise OperationRefused("\n".join(problems))
    return instances


def _read_csv(name: str, data: bytes) -> list[tuple[int, Mapping[str, Any]]]:
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = [cell.strip() for cell in next(reader, [])]
        rows: list[tuple[int, Mapping[str, Any]]] = []
        line = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) != len(header):
                    raise OperationRefused(
                        f"{escape_unprintable(name)}:{line}: {len(cells)} cells, but the header has {len(header)}"
                    )
                rows.append((line, {key: _split(key, cell.strip()) for key, cell in zip(header, cells, strict=True)}))
            line = reader.line_num + 1
    except (UnicodeDecodeError, csv.Error) as error:
        raise OperationRefused(f"{escape_unprintable(name)} is not CSV in UTF-8: {error}") from None
    return rows


def _split(column: str, cell: str) -> str | list[str]:
    if column not in _REPEATABLE:
        return cell
    return [part.strip() for part in cell.split(_SEPARATOR) if part.strip()]


def _read_yaml(name: str, data: bytes) -> list[tuple[int, Mapping[str, Any]]]:
    nested = b"rows:\n" + data.removeprefix(b"---\n")
    shift = 1 if not data.startswith(b"---\n") else 0
    document = documents.read(nested)
    findings = [finding for finding in document.findings if finding.line > shift]  # without the added line
    if findings:
        raise OperationRefused(
            "\n".join(f"{escape_unprintable(name)}:{finding.line - shift}: {finding.message}" for finding in findings)
        )
    rows = document.value.get("rows") if document.value is not None and len(document.value) == 1 else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise OperationRefused(
            f"{escape_unprintable(name)} is not a list of mappings in YAML: write `- name: TENANT/NAME` for each instance"
        )
    marks = documents.find_positions(nested)
    return [(marks[("rows", index)].line - shift, row) for index, row in enumerate(rows)]


def _build_instance(values: Mapping[str, Any], defaults: InstanceOptions) -> NewInstance:
    problems = [
        f"no option is named {quote_value(key)}{suggest_name(key, COLUMNS)}" for key in values if key not in COLUMNS
    ]
    tenant, _, name = str(values.get(_NAME, "")).partition("/")
    if not (tenant and name):
        problems.append(f"name: {quote_value(str(values.get(_NAME, '')))} is not in the format TENANT/NAME")
    options: dict[str, Any] = {}
    for column, value in values.items():
        if column == _NAME or column not in COLUMNS or value in ("", []):
            continue
        try:
            options[_FIELDS.get(column, column.replace("-", "_"))] = _convert(column, value)
        except OperationRefused as error:
            problems.append(str(error))
    if problems:
        raise OperationRefused("\n".join(problems))
    return NewInstance(tenant, name, defaults._replace(**options))


def _convert(column: str, value: Any) -> str | tuple[str, ...] | bool:
    """Return a value as a command line gives it."""
    if column == "stopped":
        if str(value).lower() not in ("true", "false"):
            raise OperationRefused(f"stopped: {quote_value(value)} is not true or false")
        return str(value).lower() == "true"
    if column in _REPEATABLE:
        texts = value if isinstance(value, list) else [value]
        if any(isinstance(text, (dict, list)) for text in texts):
            raise OperationRefused(f"{column}: write a list of texts, as the option --{column} has them")
        return tuple(str(text) for text in texts)
    if isinstance(value, (dict, list, bool)):
        raise OperationRefused(
            f"{column}: {quote_value(value)} is not a text: write it as the option --{column} has it"
        )
    return str(value)
