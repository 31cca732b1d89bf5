"""Writes the parts of an output as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from allotment.output_part import Part
from allotment.problems import escape_unprintable

NO_COLUMNS: Mapping[str, str] = {}


def format_csv(
    kind: type[Part],
    parts: Iterable[Part],
    groups: Iterable[str] = (),
    left_out: Iterable[str] = (),
    leading: Mapping[str, str] = NO_COLUMNS,
) -> str:
    """Return the parts as CSV (RFC 4180, with \\n): a column for each field, with its JSON name.

    The field `group` becomes a column for each name in `groups`. Another field that maps names to values becomes a column
    with `name=value` texts, and a field with several texts joins them with semicolons. The fields in `left_out` have no column. The columns `leading` come first, with the same value in each
    row. The first line has the names of the columns. A spreadsheet doesn't take a cell for a formula.
    """
    groups, left_out = list(groups), set(left_out)
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in left_out]
    heads = [head for field in fields for head in (groups if field.name == "group" else [field.encode_name])]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*leading, *heads])
    for part in parts:
        values = [getattr(part, field.name) for field in fields]
        cells = list(leading.values())
        for field, value in zip(fields, values, strict=True):
            cells += [_format_cell(value[name]) for name in groups] if field.name == "group" else [_format_cell(value)]
        writer.writerow(cells)
    return text.getvalue()


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, Mapping):
        value = ";".join(f"{key}={item}" for key, item in sorted(value.items()))
    elif isinstance(value, tuple):
        value = "; ".join(map(str, value))
    text = escape_unprintable(str(value), 1000)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and text != "-" else text
