"""Creates many instances in a single change, all of them or none: numbered instances, or those that the rows of a file describe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.input_rows import Columns, InputRow, RowProblem, read_rows, refuse_rows
from allotment.edits.instance_creation import InstanceOptions, ListGPUSpecs, NewInstance, create_instance
from allotment.edits.option_tables import INSTANCE_OPTIONS
from allotment.problems import OperationRefused, escape_unprintable, pluralize, quote_value

_PLACEHOLDER = "{n}"
_NAME = "name"
_ROWS_BY_NAME = {row.name: row for row in INSTANCE_OPTIONS}
_COLUMNS = Columns((_NAME, *_ROWS_BY_NAME), (_NAME,), tuple(row.name for row in INSTANCE_OPTIONS if row.is_list))


class InstanceRow(NamedTuple):
    """A new instance, and the place of its description for messages, such as `instances.csv:3`."""

    place: str
    instance: NewInstance


def read_instances(source: str, data: bytes, defaults: InstanceOptions) -> list[InstanceRow]:
    """Return the instances in a file. An option that a row lacks has its value of `defaults`.

    Raises OperationRefused with a line for each problem of the file.
    """
    file = read_rows(source, data, _COLUMNS)
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
    options = {_ROWS_BY_NAME[column].key: cell for column, cell in cells.items() if column != _NAME}
    if "stopped" in options:
        text = options["stopped"].lower()
        if text not in ("true", "false"):
            problems.append(f"stopped: {quote_value(options['stopped'])} is not true or false")
        options["stopped"] = text == "true"
    if problems:
        raise OperationRefused("\n".join(problems))
    return NewInstance(tenant, name, defaults._replace(**options))


def number_instances(new: NewInstance, count: int) -> list[NewInstance]:
    """Return `count` instances. `{n}` in the name and in the storages stands for the number of the instance.

    Without `{n}` in the name, the names are NAME-1, NAME-2 and so on. A count of 1 changes nothing.
    """
    if count == 1 and _PLACEHOLDER not in new.name:
        return [new]
    name = new.name if _PLACEHOLDER in new.name else f"{new.name}-{_PLACEHOLDER}"
    return [_number_instance(new._replace(name=name), str(number)) for number in range(1, count + 1)]


def _number_instance(new: NewInstance, number: str) -> NewInstance:
    options = new.options._replace(
        storages=tuple(text.replace(_PLACEHOLDER, number) for text in new.options.storages),
        new_storages=tuple(text.replace(_PLACEHOLDER, number) for text in new.options.new_storages),
    )
    return NewInstance(new.tenant, new.name.replace(_PLACEHOLDER, number), options)


def create_instances(
    declarations: Declarations, rows: Sequence[InstanceRow], list_gpu_specs: ListGPUSpecs
) -> ChangeSet:
    """Return the change that creates all instances. Instances of a tenant can share a new storage.

    Raises OperationRefused with a line for each problem of each instance.
    """
    files: dict[str, bytes | None] = {}
    problems: list[str] = []
    places: dict[tuple[str, str], str] = {}
    changes: list[ChangeSet] = []
    for row in rows:
        start = f"{row.place}: " if row.place else ""
        key = (row.instance.tenant, row.instance.name)
        if key in places:
            problems.append(f"{start}{'/'.join(key)} occurs twice: {places[key]} has it too")
            continue
        places[key] = row.place
        try:
            change = create_instance(declarations, row.instance, list_gpu_specs)
        except OperationRefused as error:
            problems += [f"{start}{text}" for text in str(error).splitlines()]
            continue
        conflicts = [path for path, data in change.files.items() if files.get(path, data) != data]
        problems += [f"{start}--new-storage: another instance creates {path} with other values" for path in conflicts]
        files |= change.files
        changes.append(change)
    if problems:
        raise OperationRefused("\n".join(dict.fromkeys(problems)))
    resources = tuple(sorted({resource for change in changes for resource in change.resources}))
    title = changes[0].title if len(changes) == 1 else f"Create {pluralize(len(changes), 'instance')}"
    return ChangeSet(title, files, resources)
