"""Sets fields of any declaration from texts such as `spec.replicas=2`: the edits of `allot set`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from allotment.declared import documents
from allotment.declared.document_editor import AddItem, Edit, RemoveField, SetField, edit_document
from allotment.declared.field_types import FieldType, find_type_by_key
from allotment.declared.kinds import KINDS, Kind
from allotment.declared.kinds.gpu_instance import Mount
from allotment.declared.layout import PLATFORM, Scope
from allotment.declared.reading import suggest_name
from allotment.edits.change_set import ChangeSet
from allotment.edits.declarations import Declarations
from allotment.problems import OperationRefused, quote_value

_ASSIGNMENT = re.compile(r"(?P<path>[^=+-][^=]*?)(?P<operator>\+=|=)(?P<value>.*)", re.DOTALL)
_SEGMENT = re.compile(r'"(?P<quoted>[^"]*)"(?![^.])|(?P<plain>[^.]*)')
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_REMOVAL = re.compile(r"(?P<path>[^=]+)-")
_FORMAT = "write FIELD=VALUE, FIELD+=ITEM for a list, or FIELD- to remove a field"
_ALIASES = {
    "instance": "GPUInstance",
    "storage": "GPUStorage",
    "snapshot": "GPUStorageSnapshot",
    "secret": "SecretReference",
    "spec": "GPUSpec",
}
_TOP_FIELDS = ("metadata", "spec")
_LABEL_DEPTH = 3


class DeclarationName(NamedTuple):
    """The kind, the scope and the name of a declaration."""

    kind: Kind
    scope: Scope
    name: str

    def __str__(self) -> str:
        owner = f"{self.scope.name}/" if self.scope.name and not self.kind.singleton else ""
        return f"{self.kind.name} {owner}{self.name}"


def parse_declaration_name(text: str) -> DeclarationName:
    """Return the declaration that KIND/NAME names. Clusters and tenants come before the name: `Stock/eu-1/l4-whole`.

    The kind may be written in lower case, and as an alias such as `instance`. Raises OperationRefused.
    """
    word, *names = text.split("/")
    kinds = {name.lower(): name for name in KINDS} | _ALIASES
    kind = KINDS.get(kinds.get(word.lower(), ""))
    if kind is None:
        raise OperationRefused(f"no kind is named {quote_value(word)}{suggest_name(word, KINDS)}")
    owner = "" if kind.scope == "platform" else kind.scope.upper()
    parts = [part for part in (owner, "" if kind.singleton else "NAME") if part]
    if owner == "" and kind.singleton and names == [word.lower()]:
        names = []
    if len(names) != len(parts) or not all(names):
        raise OperationRefused(f"{quote_value(text)} names no {kind.name}: write {'/'.join([kind.name, *parts])}")
    scope = Scope(kind.scope, names[0]) if owner else PLATFORM
    return DeclarationName(kind, scope, names[-1] if names else kind.name.lower())


def set_fields(declarations: Declarations, target: DeclarationName, assignments: Sequence[str]) -> ChangeSet:
    """Return the change that applies `assignments` to a declaration.

    Raises OperationRefused if the declaration is absent, or if a field doesn't exist or can't have the value.
    """
    model = target.kind.model
    declared = declarations.find(model, target.scope, target.name)
    edits = [_parse_assignment(model, text) for text in assignments]
    title = f"Set {', '.join(dict.fromkeys('.'.join(edit.path) for edit in edits))} of {target}"
    return ChangeSet(title, {declared.path: edit_document(declared.data, model, edits)}, (str(target),))


def _parse_assignment(model: type[BaseModel], text: str) -> Edit:
    if match := _ASSIGNMENT.fullmatch(text):
        path, field_type = _find_field(model, match["path"])
        if match["operator"] == "+=":
            if not field_type.is_list:
                raise OperationRefused(f"{'.'.join(path)} is not a list: write {match['path']}=VALUE")
            item = find_type_by_key(model, (*path, ""))
            assert item is not None
            return AddItem(path, _parse_value(item, match["value"], path))
        return SetField(path, _parse_value(field_type, match["value"], path))
    if match := _REMOVAL.fullmatch(text):
        return RemoveField(_find_field(model, match["path"])[0])
    raise OperationRefused(f"{quote_value(text)} sets no field: {_FORMAT}")


def split_path(text: str) -> tuple[str, ...]:
    """Return the names in the path of a field. A name with dots is in double quotes: `groups."my.team".role`."""
    path, position = list[str](), 0
    while position <= len(text):
        match = _SEGMENT.match(text, position)
        assert match is not None  # `plain` matches any text
        path.append(match["plain"] if match["quoted"] is None else match["quoted"])
        position = match.end() + 1
    return tuple(path)


def quote_path_name(name: str) -> str:
    """Return a name as `split_path` reads it in a path."""
    return f'"{name}"' if "." in name else name


def _find_field(model: type[BaseModel], text: str) -> tuple[tuple[str, ...], FieldType]:
    """Return the path and the type of a field. A path without `spec` or `metadata` at its start begins in `spec`."""
    path = split_path(text)
    if path[0] not in _TOP_FIELDS:
        path = ("spec", *path)
    if path[:2] == ("metadata", "labels") and len(path) > _LABEL_DEPTH:
        path = (*path[:2], ".".join(path[2:]))  # the key of a label may contain dots
    for depth in range(1, len(path) + 1):
        field_type = find_type_by_key(model, path[:depth])
        if field_type is None:
            parent = find_type_by_key(model, path[: depth - 1])
            fields = parent.fields if parent is not None else ()
            groups = {name: find_type_by_key(model, (*path[: depth - 1], name)) for name in fields}
            nested = [name for name, group in groups.items() if group and path[depth - 1] in group.fields]
            hint = suggest_name(path[depth - 1], fields) if fields else ""
            if nested:
                hint = f"; did you mean {' or '.join(f'{name}.{path[depth - 1]}' for name in nested)}?"
            raise OperationRefused(f"{'.'.join(path[: depth - 1])} has no field {quote_value(path[depth - 1])}{hint}")
    assert field_type is not None
    if path in (("spec",), ("metadata",), ("metadata", "name")):
        raise OperationRefused(f"{'.'.join(path)} can't be set: set its fields, or move the file to rename it")
    return path, field_type


def _parse_value(field_type: FieldType, text: str, path: tuple[str, ...]) -> Any:
    """Return the value that a text has in a field. A list or mapping is written in YAML: `{name: models}`."""
    choices = field_type.choices
    if choices and text not in choices:
        raise OperationRefused(f"{'.'.join(path)} can't be {quote_value(text)}: write {', '.join(choices)}")
    if field_type.annotation is bool:
        return text == "true"
    if not field_type.is_group:
        reads_number = field_type.annotation is int and _INTEGER.fullmatch(text)
        return int(text) if reads_number else text
    document = documents.read(f"value: {text}\n".encode())
    value = document.value.get("value") if document.value is not None and len(document.value) == 1 else None
    if document.findings or not isinstance(value, (dict, list)):
        hint = (
            "; `allot instance mount TENANT/NAME STORAGE:/PATH` mounts a storage"
            if field_type.annotation is Mount
            else ""
        )
        raise OperationRefused(
            f"{'.'.join(path)} can't be {quote_value(text)}: write a list or a mapping in YAML, such as {{name: models}}{hint}"
        )
    return value
