"""Which fields of a declaration differ between two commits, named as in its file, with values as they are written there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from allotment.declared import documents
from allotment.declared.inventory import Declared
from allotment.declared.kinds.declaration import Declaration
from allotment.problems import counted, printable, quoted

SHOWN_FIELDS = 8  # of what is added or removed whole
ORDERED = ("command", "args")  # lists whose order means something
_LABELS = ("name", "mountPath", "version", "from", "path", "storageSpec", "id")
_UNSAID = frozenset(("displayName", "description"))  # of what is added or removed whole
_PLAIN = re.compile(r"[A-Za-z0-9./@*+-][A-Za-z0-9._:/@#*+=~-]*")


class Widths(NamedTuple):
    """How many characters of a value and of a name are shown, and how many fields of what comes or goes whole."""

    value: int
    name: int
    fields: int


CUT = Widths(120, 80, SHOWN_FIELDS)
WHOLE = Widths(1 << 20, 1 << 20, 1 << 20)  # what nobody may miss is shown to its end


class FieldChange(NamedTuple):
    """A field that differs: its values before and after as a person reads them, None where it has none."""

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
class _Leaf:
    """A value: what it means, how it is written, and whether it is at all: a default isn't."""

    value: Any
    said: Any
    written: bool = True
    key: str = ""

    def text(self, widths: Widths) -> str:
        """The value as a person reads it, with its key where it is an entry that says one thing."""
        words = shown(self.said, widths)
        return f"{self.key} {words}" if self.key else words


class _Entries(dict[str, Any]):
    """The entries of a list, by what tells them apart."""


_Tree = Any  # _Leaf, a dict of trees by key, _Entries, or a tuple of leaves


def differences(old: Declared[Declaration], new: Declared[Declaration], widths: Widths = CUT) -> list[FieldChange]:
    """Return the fields that differ between two versions of a declaration, sorted."""
    was, is_now = tree(old), tree(new)
    return sorted(_compared("", was, is_now, widths), key=_place)


class Noted:
    """The fields that differ of each file, worked out once: thousands of things depend on one cluster."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, Widths], list[FieldChange]] = {}

    def of(self, old: Declared[Declaration], new: Declared[Declaration], widths: Widths = CUT) -> list[FieldChange]:
        """Return what differs between two versions of a declaration."""
        if old.data == new.data:
            return []
        key = new.path, old.blob, new.blob, widths
        if key not in self._known:
            self._known[key] = differences(old, new, widths)
        return self._known[key]


def leaves_of(declaration: Declared[Declaration], name: str) -> dict[str, str]:
    """Return the whole values of all fields of a name, by where they stand."""
    return dict(_named("spec", tree(declaration)["spec"], name))


def _named(at: str, subtree: _Tree, name: str) -> Iterator[tuple[str, str]]:
    for key, each in subtree.items() if isinstance(subtree, dict) else ():
        below = _below(at, key, isinstance(subtree, _Entries), WHOLE)
        if key == name and isinstance(each, _Leaf):
            yield below, each.text(WHOLE)
        yield from _named(below, each, name)


def one_by_one(declaration: Declared[Declaration], widths: Widths = CUT, *, added: bool) -> list[FieldChange]:
    """Return what a declaration that is added or removed has, each field and each entry of a list by itself."""
    spec = tree(declaration)["spec"]
    changes = _compared("spec", {}, spec, widths) if added else _compared("spec", spec, {}, widths)
    return sorted(changes, key=_place)


def _place(change: FieldChange) -> tuple[str, bool]:
    return change.field, change.before is None


def digest(declaration: Declared[Declaration]) -> str:
    """Return the first fields of what a declaration says, in a line."""
    return _digest(tree(declaration)["spec"], CUT)


def tree(declared: Declared[Declaration]) -> dict[str, _Tree]:
    """Return what is declared: its metadata's labels and its spec, with the texts that the file has."""
    model = declared.model.model_dump(by_alias=True, exclude_none=True)
    written = documents.read(declared.data).value
    document = written if isinstance(written, dict) else {}
    labels = model.get("metadata", {}).get("labels", {})
    metadata = {"labels": _tree(labels, document.get("metadata", {}).get("labels"))}
    return {"metadata": metadata, "spec": _tree(model["spec"], document.get("spec"))}


def _tree(value: Any, raw_value: Any) -> _Tree:
    if isinstance(value, Mapping):
        raw_fields = raw_value if isinstance(raw_value, dict) else {}
        return {str(key): _tree(child, raw_fields.get(key)) for key, child in value.items()}
    if isinstance(value, list | tuple):
        of_list = raw_value if isinstance(raw_value, list) and len(raw_value) == len(value) else [None] * len(value)
        if all(_is_single(entry) for entry in value):
            return tuple(_single(*pair) for pair in zip(value, of_list, strict=True))
        return _Entries({label: _tree(*pair) for label, *pair in zip(_labels(value), value, of_list, strict=True)})
    return _leaf(value, raw_value)


def _is_single(value: Any) -> bool:
    """Return whether an entry of a list says one thing: a value, or one by its key, such as `team: finance`."""
    if isinstance(value, Mapping):
        return len(value) == 1 and not isinstance(next(iter(value.values())), Mapping | list)
    return True


def _single(value: Any, raw_value: Any) -> _Leaf:
    if not isinstance(value, Mapping):
        return _leaf(value, raw_value)
    ((key, only),) = value.items()
    below = _leaf(only, raw_value.get(key) if isinstance(raw_value, dict) else None)
    return _Leaf((key, only), below.said, below.written, key)


def _labels(entries: Sequence[Any]) -> list[str]:
    """Return what tells the entries of a list apart."""
    labels: list[str] = []
    for at, entry in enumerate(entries):
        label = ""
        if isinstance(entry, Mapping):
            parts = ("kind", "field") if {"kind", "field"} <= entry.keys() else _LABELS
            named = [str(entry[key]) for key in parts if key in entry]
            label = " ".join(named) if parts is not _LABELS else next(iter(named), "")
        labels.append(label if label and label not in labels else f"{label}#{at}")
    return labels


def _leaf(value: Any, raw_value: Any) -> _Leaf:
    written = raw_value is not None and not isinstance(raw_value, dict | list)
    return _Leaf(value, raw_value if written else value, written)


def shown(value: Any, widths: Widths = CUT) -> str:
    """Return a value as a person reads it: as it is where no part of it can be mistaken, else in quotes."""
    if isinstance(value, str):
        is_plain = len(value) <= widths.value and _PLAIN.fullmatch(value)
        return value if is_plain else f"'{printable(value, widths.value)}'"
    return quoted(value)


def _compared(at: str, old: _Tree | None, new: _Tree | None, widths: Widths, label: str = "") -> Iterator[FieldChange]:
    """Yield how two trees differ; `label` is what they are called as entries of a list."""
    if isinstance(old, dict) and isinstance(new, dict):
        is_list = isinstance(old or new, _Entries)
        for key in old.keys() | new.keys():
            below = _below(at, key, is_list, widths)
            yield from _compared(below, old.get(key), new.get(key), widths, key if is_list else "")
    elif (old == () and isinstance(new, _Entries)) or (new == () and isinstance(old, _Entries)):
        yield from _compared(at, old or _Entries(), new or _Entries(), widths, label)
    elif old is None or new is None:
        subtree = new if old is None else old
        if not isinstance(subtree, _Leaf) and not subtree:
            if isinstance(subtree, dict):  # what says by being there alone what something is, such as `bucket: {}`
                yield FieldChange(at, None, "") if old is None else FieldChange(at, "", None)
            return
        if isinstance(subtree, _Entries):
            empty = _Entries()
            yield from _compared(at, empty if old is None else old, empty if new is None else new, widths)
            return
        text = _digest(subtree, widths, label)
        yield FieldChange(at, None, text) if old is None else FieldChange(at, text, None)
    elif isinstance(old, tuple) and isinstance(new, tuple) and at.rpartition(".")[2] not in ORDERED:
        was, is_now = {leaf.value: leaf for leaf in old}, {leaf.value: leaf for leaf in new}
        if removed_leaves := [leaf for value, leaf in was.items() if value not in is_now]:
            yield FieldChange(at, _digest(tuple(removed_leaves), widths), None)
        if added := [leaf for value, leaf in is_now.items() if value not in was]:
            yield FieldChange(at, None, _digest(tuple(added), widths))
    elif _values(old) != _values(new):
        yield FieldChange(at, _digest(old, widths), _digest(new, widths))


def _below(at: str, key: str, is_list: bool, widths: Widths) -> str:
    """Return a field of a field: `spec.users[ada]` of an entry of several."""
    name = printable(key, widths.name)
    if is_list:
        return f"{at}[{name}]"
    return f"{at}.{name}" if at else name


def _values(subtree: _Tree) -> Any:
    if isinstance(subtree, _Leaf):
        return subtree.value
    return (
        {key: _values(each) for key, each in subtree.items()}
        if isinstance(subtree, dict)
        else [each.value for each in subtree]
    )


def _digest(subtree: _Tree, widths: Widths, label: str = "") -> str:
    """Return a value, those of a list, or the first fields of several but the one that says their label, in a line."""
    if isinstance(subtree, _Leaf):
        return subtree.text(widths)
    if isinstance(subtree, tuple):
        return ", ".join(each.text(widths) for each in subtree) or "nothing"
    fields = list(_fields("", subtree, widths, label))
    more = f" and {counted(len(fields) - widths.fields, 'more field')}" if len(fields) > widths.fields else ""
    return ", ".join(fields[: widths.fields]) + more


def _fields(at: str, subtree: _Tree, widths: Widths, label: str = "") -> Iterator[str]:
    if isinstance(subtree, dict):
        is_list = isinstance(subtree, _Entries)
        for key, each in subtree.items():
            is_label = key in _LABELS and isinstance(each, _Leaf) and each.text(WHOLE) == label
            if key not in _UNSAID and not (label and is_label):
                yield from _fields(_below(at, key, is_list, widths), each, widths, key if is_list else "")
    elif subtree != () and getattr(subtree, "written", True):
        yield f"{at} {_digest(subtree, widths)}"
