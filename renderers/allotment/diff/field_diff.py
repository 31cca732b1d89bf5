"""Compare the fields of a declaration between two commits. Names and values are spelled as in the declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from allotment.declared import documents
from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.declaration import Declaration
from allotment.problems import escape_unprintable, pluralize, quote_value

MAX_SHOWN_FIELDS = 8  # a plan shows at most this many fields of an added or removed declaration
ORDERED_LISTS = ("command", "args")  # lists with a meaningful order
_LABEL_KEYS = ("name", "mountPath", "version", "from", "path", "storageSpec", "id")
# A plan does not show these fields of an added or removed declaration.
_OMITTED_FIELDS = frozenset(("displayName", "description"))
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9./@*+-][A-Za-z0-9._:/@#*+=~-]*")


class Truncation(NamedTuple):
    """The most that a plan shows: characters of a value or name, and fields of an added or removed declaration."""

    value_length: int
    name_length: int
    field_count: int


TRUNCATED = Truncation(120, 80, MAX_SHOWN_FIELDS)
UNTRUNCATED = Truncation(1 << 20, 1 << 20, 1 << 20)  # for values that a reviewer must see in full


class FieldChange(NamedTuple):
    """A changed field, with its values before and after as text for people; None if the field has no value."""

    field: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        name = f"{self.field} " if self.field else ""
        if self.before is None:
            return f"{name}added: {self.after}" if self.after else f"{name}added"
        if self.after is None:
            return f"{name}removed: {self.before}" if self.before else f"{name}removed"
        return f"{name}{self.before} → {self.after}"


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, and its spelling in the file.

    `written` is False if the value is a default that the file doesn't contain. `key` is the key of a list item that is
    a mapping with a single key.
    """

    value: Any
    as_written: Any
    written: bool = True
    key: str = ""

    def display_text(self, widths: Truncation) -> str:
        """Return the value for people, preceded by its key if it is a list item with a single key."""
        words = display_value(self.as_written, widths)
        return f"{self.key} {words}" if self.key else words


class _ListEntries(dict[str, Any]):
    """The items of a list, by a label that identifies each item."""


_Tree = Any  # a _Value, a dict of trees by key, a _ListEntries, or a tuple of _Value


def differences(
    old: DeclarationFile[Declaration], new: DeclarationFile[Declaration], widths: Truncation = TRUNCATED
) -> list[FieldChange]:
    """Return the fields that differ between two versions of a declaration, sorted."""
    before, after = value_tree(old), value_tree(new)
    return sorted(_compare_trees("", before, after, widths), key=_sort_key)


class DiffCache:
    """Caches the differences of each file, because thousands of resources depend on the same Cluster."""

    def __init__(self) -> None:
        self._differences: dict[tuple[str, str, str, Truncation], list[FieldChange]] = {}

    def field_changes(
        self, old: DeclarationFile[Declaration], new: DeclarationFile[Declaration], widths: Truncation = TRUNCATED
    ) -> list[FieldChange]:
        """Return the differences between two versions of a declaration."""
        if old.data == new.data:
            return []
        key = new.path, old.blob, new.blob, widths
        if key not in self._differences:
            self._differences[key] = differences(old, new, widths)
        return self._differences[key]


def values_of(declaration: DeclarationFile[Declaration], name: str) -> dict[str, str]:
    """Return the values of all fields with this name, in full length, by the path of the field."""
    return dict(_values_by_name("spec", value_tree(declaration)["spec"], name))


def _values_by_name(at: str, subtree: _Tree, name: str) -> Iterator[tuple[str, str]]:
    for key, each in subtree.items() if isinstance(subtree, dict) else ():
        below = _child_field(at, key, isinstance(subtree, _ListEntries), UNTRUNCATED)
        if key == name and isinstance(each, _Value):
            yield below, each.display_text(UNTRUNCATED)
        yield from _values_by_name(below, each, name)


def expand(
    declaration: DeclarationFile[Declaration], widths: Truncation = TRUNCATED, *, added: bool
) -> list[FieldChange]:
    """Return the changes of the fields in the spec of an added or removed declaration.

    Each field is one change, which summarizes its subfields. A list of mappings is one change for each item. Mappings of
    defaults that the file doesn't contain are left out.
    """
    document = documents.read(declaration.data).value
    fields = document.get("spec") if isinstance(document, dict) else None
    spec = {
        key: subtree
        for key, subtree in value_tree(declaration)["spec"].items()
        if not isinstance(subtree, dict) or key in (fields or ()) or _summarize(subtree, widths)
    }
    changes = _compare_trees("spec", {}, spec, widths) if added else _compare_trees("spec", spec, {}, widths)
    return sorted(changes, key=_sort_key)


def _sort_key(change: FieldChange) -> tuple[str, bool]:
    return change.field, change.before is None


def summarize_declaration(declaration: DeclarationFile[Declaration]) -> str:
    """Return the first fields of a declaration in one line."""
    return _summarize(value_tree(declaration)["spec"], TRUNCATED)


def value_tree(declared: DeclarationFile[Declaration]) -> dict[str, _Tree]:
    """Return the labels and the spec of a declaration as a tree, with values as spelled in the file."""
    model = declared.model.model_dump(by_alias=True, exclude_none=True)
    written = documents.read(declared.data).value
    document = written if isinstance(written, dict) else {}
    labels = model.get("metadata", {}).get("labels", {})
    metadata = {"labels": _build_tree(labels, document.get("metadata", {}).get("labels"))}
    return {"metadata": metadata, "spec": _build_tree(model["spec"], document.get("spec"))}


def _build_tree(value: Any, raw_value: Any) -> _Tree:
    if isinstance(value, Mapping):
        raw_fields = raw_value if isinstance(raw_value, dict) else {}
        return {str(key): _build_tree(child, raw_fields.get(key)) for key, child in value.items()}
    if isinstance(value, list | tuple):
        of_list = raw_value if isinstance(raw_value, list) and len(raw_value) == len(value) else [None] * len(value)
        if all(_is_single_value(entry) for entry in value):
            return tuple(_single_value(*pair) for pair in zip(value, of_list, strict=True))
        return _ListEntries(
            {label: _build_tree(*pair) for label, *pair in zip(_entry_labels(value), value, of_list, strict=True)}
        )
    return _to_value(value, raw_value)


def _is_single_value(value: Any) -> bool:
    """Return whether a list item is a single value: a scalar, or a mapping with one key, such as `team: finance`."""
    if isinstance(value, Mapping):
        return len(value) == 1 and not isinstance(next(iter(value.values())), Mapping | list)
    return True


def _single_value(value: Any, raw_value: Any) -> _Value:
    if not isinstance(value, Mapping):
        return _to_value(value, raw_value)
    ((key, only),) = value.items()
    below = _to_value(only, raw_value.get(key) if isinstance(raw_value, dict) else None)
    return _Value((key, only), below.as_written, below.written, key)


def _entry_labels(entries: Sequence[Any]) -> list[str]:
    """Return the labels that identify the items of a list."""
    labels: list[str] = []
    for at, entry in enumerate(entries):
        label = ""
        if isinstance(entry, Mapping):
            parts = ("kind", "field") if {"kind", "field"} <= entry.keys() else _LABEL_KEYS
            named = [str(entry[key]) for key in parts if key in entry]
            label = " ".join(named) if parts is not _LABEL_KEYS else next(iter(named), "")
        labels.append(label if label and label not in labels else f"{label}#{at}")
    return labels


def _to_value(value: Any, raw_value: Any) -> _Value:
    written = raw_value is not None and not isinstance(raw_value, dict | list)
    return _Value(value, raw_value if written else value, written)


def display_value(value: Any, widths: Truncation = TRUNCATED) -> str:
    """Return a value as text for people, with quotes unless the text is unambiguous without quotes."""
    if isinstance(value, str):
        is_plain = len(value) <= widths.value_length and _PLAIN_TEXT.fullmatch(value)
        return value if is_plain else f"'{escape_unprintable(value, widths.value_length)}'"
    return quote_value(value)


def _compare_trees(
    at: str, old: _Tree | None, new: _Tree | None, widths: Truncation, label: str = ""
) -> Iterator[FieldChange]:
    """Yield the differences of two trees. If the trees are items of a list, `label` identifies them."""
    if isinstance(old, dict) and isinstance(new, dict):
        is_list = isinstance(old or new, _ListEntries)
        for key in old.keys() | new.keys():
            below = _child_field(at, key, is_list, widths)
            yield from _compare_trees(below, old.get(key), new.get(key), widths, key if is_list else "")
    elif (old == () and isinstance(new, _ListEntries)) or (new == () and isinstance(old, _ListEntries)):
        yield from _compare_trees(at, old or _ListEntries(), new or _ListEntries(), widths, label)
    elif old is None or new is None:
        subtree = new if old is None else old
        if not isinstance(subtree, _Value) and not subtree:
            if isinstance(subtree, dict):  # even an empty mapping has a meaning: `bucket: {}`
                yield FieldChange(at, None, "") if old is None else FieldChange(at, "", None)
            return
        if isinstance(subtree, _ListEntries):
            empty = _ListEntries()
            yield from _compare_trees(at, empty if old is None else old, empty if new is None else new, widths)
            return
        text = _summarize(subtree, widths, label)
        yield FieldChange(at, None, text) if old is None else FieldChange(at, text, None)
    elif isinstance(old, tuple) and isinstance(new, tuple) and at.rpartition(".")[2] not in ORDERED_LISTS:
        before, after = {leaf.value: leaf for leaf in old}, {leaf.value: leaf for leaf in new}
        if removed_leaves := [leaf for value, leaf in before.items() if value not in after]:
            yield FieldChange(at, _summarize(tuple(removed_leaves), widths), None)
        if added := [leaf for value, leaf in after.items() if value not in before]:
            yield FieldChange(at, None, _summarize(tuple(added), widths))
    elif _plain_values(old) != _plain_values(new):
        yield FieldChange(at, _summarize(old, widths), _summarize(new, widths))


def _child_field(at: str, key: str, is_list: bool, widths: Truncation) -> str:
    """Return the name of a subfield, such as `spec.users[ada]` for a list item."""
    name = escape_unprintable(key, widths.name_length)
    if is_list:
        return f"{at}[{name}]"
    return f"{at}.{name}" if at else name


def _plain_values(subtree: _Tree) -> Any:
    if isinstance(subtree, _Value):
        return subtree.value
    return (
        {key: _plain_values(each) for key, each in subtree.items()}
        if isinstance(subtree, dict)
        else [each.value for each in subtree]
    )


def _summarize(subtree: _Tree, widths: Truncation, label: str = "") -> str:
    """Return one line with a value, the values of a list, or the first fields of a mapping.

    The field that contains `label`, the label of the mapping, is omitted.
    """
    if isinstance(subtree, _Value):
        return subtree.display_text(widths)
    if isinstance(subtree, tuple):
        return ", ".join(each.display_text(widths) for each in subtree) or "nothing"
    fields = list(_field_summaries("", subtree, widths, label))
    more = (
        f" and {pluralize(len(fields) - widths.field_count, 'more field')}" if len(fields) > widths.field_count else ""
    )
    return ", ".join(fields[: widths.field_count]) + more


def _field_summaries(at: str, subtree: _Tree, widths: Truncation, label: str = "") -> Iterator[str]:
    if isinstance(subtree, dict):
        is_list = isinstance(subtree, _ListEntries)
        for key, each in subtree.items():
            is_label = key in _LABEL_KEYS and isinstance(each, _Value) and each.display_text(UNTRUNCATED) == label
            if key not in _OMITTED_FIELDS and not (label and is_label):
                yield from _field_summaries(
                    _child_field(at, key, is_list, widths), each, widths, key if is_list else ""
                )
    elif subtree != () and getattr(subtree, "written", True):
        yield f"{at} {_summarize(subtree, widths)}"
