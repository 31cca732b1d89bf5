"""Edits the text of a declaration: sets, adds and removes fields, and keeps the comments and all other lines.

The result is in canonical form, so the edit of a canonical file changes only the lines of the edited fields.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from allotment.declared import documents
from allotment.declared.canonical import LIST_KEYS, ORDERED_LISTS, write_document
from allotment.declared.commented_document import Comments, Entry, Group, read_commented_document
from allotment.declared.field_types import find_type_by_key
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.scalars import reads_as_text
from allotment.problems import OperationRefused, quote_value

# The keys from the top of a document to a field. In a list, a key is the value of an item's key field, such as `name`,
# or the item itself if the item is a scalar.
EditPath = tuple[str, ...]
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")
_ITEM_KEYS = (*LIST_KEYS, "tenant", "tenants")
_MIN_DEPTH = 1  # the fields of the top level, such as `spec`, stay even if they become empty


class SetField(NamedTuple):
    """Give a field a value, and create the mappings that contain it. A list on the path must have the item already."""

    path: EditPath
    value: Any


class AddItem(NamedTuple):
    """Add an item to a list, and create the list if it is absent. The list must not have an item with this key."""

    path: EditPath
    value: Any


class RemoveField(NamedTuple):
    """Remove a field, or an item of a list, with its comments. A list or mapping that becomes empty goes too."""

    path: EditPath


Edit = SetField | AddItem | RemoveField


def edit_document(data: bytes, model: type[BaseModel], edits: Sequence[Edit]) -> bytes:
    """Return a document after some edits, in canonical form. Values are str, int, bool, and lists and dicts of them.

    The result is read again. Raises OperationRefused if the document is unreadable, if a path leads nowhere, or if the
    result does not have exactly the edited values.
    """
    before = documents.read(data)
    if before.value is None or before.findings:
        finding = before.findings[0]
        raise OperationRefused(f"line {finding.line}: {finding.message}: correct the file first")
    document, expected = read_commented_document(data), copy.deepcopy(before.value)
    tree = _TreeEditor(document.root, model)
    for edit in edits:
        tree.apply(edit)
        _edit_value(expected, edit)
    result = write_document(document, model)
    after = documents.read(result)
    if after.findings or _normalize(after.value) != _normalize(expected):
        raise OperationRefused(
            f"the edit of {_describe(edits[0].path)} would change other values of the file: edit the file by hand"
        )
    return result


def set_enum_field(declared: DeclarationFile[Declaration], field: str, value: str, default: str) -> bytes:
    """Return the content of a declaration with a value of a field of its spec. The default value removes the field."""
    path, kind = ("spec", field), type(declared.model)
    if getattr(declared.model.spec, field) == value:
        return declared.data
    return edit_document(declared.data, kind, [RemoveField(path) if value == default else SetField(path, value)])


class _TreeEditor:
    """Edits the tree of a document. `model` shows whether an absent field is a list or a mapping."""

    def __init__(self, root: Group, model: type[BaseModel]) -> None:
        self._root, self._model = root, model

    def apply(self, edit: Edit) -> None:
        """Apply an edit, or raise OperationRefused."""
        if isinstance(edit, AddItem):
            self._add_item(edit)
        elif isinstance(edit, SetField):
            self._set_field(edit)
        else:
            self._remove(edit.path)

    def _add_item(self, edit: AddItem) -> None:
        items, key = self._find_group(edit.path, is_mapping=False), _key_of(edit.value)
        if items.is_mapping:
            raise OperationRefused(f"{_describe(edit.path)} is not a list")
        is_keyed = key is not None and edit.path[-1] not in ORDERED_LISTS  # an argument may occur twice
        if is_keyed and any(_item_key(entry.value) == key for entry in items.entries):
            raise OperationRefused(f"{_describe(edit.path)} has {quote_value(key)} already")
        items.entries.append(_create_entry(None, edit.value))

    def _set_field(self, edit: SetField) -> None:
        parent = self._find_group(edit.path[:-1], is_mapping=True)
        at = _find_entry(parent, edit.path)
        if at is not None:
            entry = parent.entries[at]
            was_plain = isinstance(entry.value, yaml.ScalarEvent) and not entry.value.style
            parent.entries[at] = entry._replace(value=_create_node(edit.value, stays_plain=was_plain))
        elif parent.is_mapping:
            parent.entries.append(_create_entry(edit.path[-1], edit.value))
        else:
            raise _missing_error(edit.path)

    def _find_group(self, path: EditPath, *, is_mapping: bool) -> Group:
        """Return the mapping or list at a path. If it is absent, create it: a mapping if `is_mapping`, otherwise a list."""
        group = self._root
        for depth in range(1, len(path) + 1):
            at = _find_entry(group, path[:depth])
            if at is None:
                creates_mapping = is_mapping or depth < len(path)
                field_type = find_type_by_key(self._model, path[:depth])
                if not group.is_mapping or (creates_mapping and field_type is not None and field_type.is_list):
                    raise _missing_error(path[: depth + 1] if group.is_mapping else path[:depth])
                child = Group(creates_mapping, [])
                group.entries.append(Entry(path[depth - 1], child, Comments([], "")))
            else:
                child = group.entries[at].value
                if not isinstance(child, Group):
                    raise OperationRefused(f"{_describe(path[:depth])} is a single value, which has no fields")
            group = child
        return group

    def _remove(self, path: EditPath) -> None:
        groups = [self._root]
        for depth in range(1, len(path)):
            at = _find_entry(groups[-1], path[:depth])
            child = groups[-1].entries[at].value if at is not None else None
            if not isinstance(child, Group):
                raise _missing_error(path)
            groups.append(child)
        for depth in range(len(path), 0, -1):
            group = groups[depth - 1]
            at = _find_entry(group, path[:depth])
            if at is None:
                raise _missing_error(path)
            del group.entries[at]
            if group.entries or depth - 1 <= _MIN_DEPTH:
                return


def _find_entry(group: Group, path: EditPath) -> int | None:
    """Return the index of the entry of the last key of a path, or None."""
    keys = [entry.key if group.is_mapping else _item_key(entry.value) for entry in group.entries]
    if keys.count(path[-1]) > 1:
        raise OperationRefused(
            f"several items of {_describe(path[:-1])} are {quote_value(path[-1])}: edit the file by hand"
        )
    return keys.index(path[-1]) if path[-1] in keys else None


def _create_entry(key: str | None, value: Any) -> Entry:
    return Entry(key, _create_node(value), Comments([], ""))


def _create_node(value: Any, *, stays_plain: bool = False) -> Any:
    """Return the tree of a plain value. The canonical writer chooses the quotes of texts.

    With `stays_plain`, a word such as `1.2.4` gets no quotes, because the text that it replaces has none.
    """
    if isinstance(value, dict):
        return Group(True, [_create_entry(key, child) for key, child in value.items()])
    if isinstance(value, list):
        return Group(False, [_create_entry(None, item) for item in value])
    is_text = isinstance(value, str)
    if is_text and stays_plain and _WORD.fullmatch(value) and reads_as_text(value):
        return yaml.ScalarEvent(None, None, (True, True), value)
    text = value if is_text else str(value).lower() if isinstance(value, bool) else str(value)
    return yaml.ScalarEvent(None, None, (True, True), text, style='"' if is_text else None)


def _item_key(node: Any) -> str | None:
    """Return the key of an item of a list: the value of its key field, or the item itself if it is a scalar."""
    if not isinstance(node, Group):
        return str(node.value)
    texts = {entry.key: entry.value.value for entry in node.entries if not isinstance(entry.value, Group)}
    return next((texts[name] for name in _ITEM_KEYS if name in texts), None)


def _key_of(value: Any) -> str | None:
    """Return the key of an item of a list, given as a plain value."""
    if not isinstance(value, dict):
        return str(value)
    return next((str(value[name]) for name in _ITEM_KEYS if name in value), None)


def _edit_value(root: dict[str, Any], edit: Edit) -> None:
    """Edit the plain values of a document. `_TreeEditor` has accepted the edit."""
    containers: list[Any] = [root]
    for key in edit.path[:-1]:
        parent = containers[-1]
        containers.append(parent.setdefault(key, {}) if isinstance(parent, dict) else parent[_index(parent, key)])
    key, parent = edit.path[-1], containers[-1]
    if isinstance(edit, AddItem):
        items = parent.setdefault(key, []) if isinstance(parent, dict) else parent[_index(parent, key)]
        items.append(copy.deepcopy(edit.value))
    elif isinstance(edit, SetField):
        parent[_index(parent, key)] = copy.deepcopy(edit.value)
    else:
        for depth in range(len(edit.path), 0, -1):
            container = containers[depth - 1]
            del container[_index(container, edit.path[depth - 1])]
            if container or depth - 1 <= _MIN_DEPTH:
                return


def _index(container: Any, key: str) -> Any:
    return key if isinstance(container, dict) else [_key_of(item) for item in container].index(key)


def _normalize(value: Any, key: str = "") -> Any:
    """Return a value in which the order of keys, and of lists without an order of their own, has no effect."""
    if isinstance(value, dict):
        return {name: _normalize(child, name) for name, child in value.items()}
    if isinstance(value, list):
        items = [_normalize(item) for item in value]
        return items if key in ORDERED_LISTS else sorted(items, key=repr)
    return value


def _missing_error(path: EditPath) -> OperationRefused:
    return OperationRefused(f"{_describe(path[:-1]) or 'the file'} has no {quote_value(path[-1])}")


def _describe(path: EditPath) -> str:
    return ".".join(path)
