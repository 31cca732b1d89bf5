"""Reads the new instances that the rows of a file describe."""

from __future__ import annotations

from typing import Any, NamedTuple

from allotment.edits.input_rows import Columns, InputRow, RowProblem, read_rows, refuse_rows
from allotment.edits.instance_creation import InstanceOptions, NewInstance
from allotment.problems import OperationRefused, escape_unprintable, quote_value

_NAME = "name"
_LISTS = ("port", "storage", "new-storage", "env", "label", "access")
_FIELDS = {"port": "ports", "storage": "storages", "new-storage": "new_storages", "label": "labels"}
_OPTIONS = tuple(
    next((column for column, field in _FIELDS.items() if field == name), name.replace("_", "-"))
    for name in InstanceOptions._fields
)
COLUMNS = Columns((_NAME, *_OPTIONS), (_NAME,), _LISTS)


class InstanceRow(NamedTuple):
    """A new instance, and the place of its description for messages, such as `instances.csv:3`."""

    place: str
    instance: NewInstance


def read_instances(source: str, data: bytes, defaults: InstanceOptions) -> list[InstanceRow]:
    """Return the instances in a file. An option that a row lacks has its value of `defaults`.

    Raises OperationRefused with a line for each problem of the file.
    """
    file = read_rows(source, data, COLUMNS)
    instances, problems = [], list(file.problems)
    for row in file.rows:
        try:
            place = f"{escape_unprintable(source, 400)}:{row.line}"
            instances.append(InstanceRow(place, _build_instance(row, defaults)))
        except OperationRefused as error:
            problems += [RowProblem(row.line, text) for text in str(error).splitlines()]
    if problems:
        raise refuse_rows(source, problems)
    return instances


def _build_instance(row: InputRow, defaults: InstanceOptions) -> NewInstance:
    problems: list[str] = []
    tenant, _, name = row.values[_NAME].partition("/")
    if not (tenant and name):
        problems.append(f"name: {quote_value(row.values[_NAME])} is not in the format TENANT/NAME")
    cells: dict[str, Any] = {**row.values, **row.lists}
    options = {_FIELDS.get(column, column.replace("-", "_")): cell for column, cell in cells.items() if column != _NAME}
    if "stopped" in options:
        text = options["stopped"].lower()
        if text not in ("true", "false"):
            problems.append(f"stopped: {quote_value(options['stopped'])} is not true or false")
        options["stopped"] = text == "true"
    if problems:
        raise OperationRefused("\n".join(problems))
    return NewInstance(tenant, name, defaults._replace(**options))
