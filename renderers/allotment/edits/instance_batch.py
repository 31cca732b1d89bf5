"""Creates many instances in a single change: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.edits.instance_creation import ListGPUSpecs, NewInstance, create_instance
from allotment.edits.instance_rows import InstanceRow
from allotment.problems import OperationRefused, pluralize

PLACEHOLDER = "{n}"
MAX_COUNT = 1000


def number_instances(new: NewInstance, count: int) -> list[NewInstance]:
    """Return `count` instances. `{n}` in the name and in the storages stands for the number of the instance.

    Without `{n}` in the name, the names are NAME-1, NAME-2 and so on. A count of 1 changes nothing.
    """
    if count == 1 and PLACEHOLDER not in new.name:
        return [new]
    name = new.name if PLACEHOLDER in new.name else f"{new.name}-{PLACEHOLDER}"
    return [_number_instance(new._replace(name=name), str(number)) for number in range(1, count + 1)]


def _number_instance(new: NewInstance, number: str) -> NewInstance:
    options = new.options._replace(
        storages=tuple(text.replace(PLACEHOLDER, number) for text in new.options.storages),
        new_storages=tuple(text.replace(PLACEHOLDER, number) for text in new.options.new_storages),
    )
    return NewInstance(new.tenant, new.name.replace(PLACEHOLDER, number), options)


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
