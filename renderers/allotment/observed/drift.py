"""Compares a live object with its published manifest, field by field, and finds changes that were made by hand.

Argo CD applies a manifest server-side. A server-side apply does not remove a field that another manager owns, so
Argo CD reports Synced even if a person added a container to a Deployment. `metadata.managedFields` doesn't prove the
author of an edit, because the author chooses the manager's name.

A difference names its field but never a value: an added environment variable may contain a secret, and the status is
committed to Git.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from allotment.manifests.names import RELOAD_SECRETS
from allotment.manifests.yaml_text import Object
from allotment.observed.defaults import (
    CONTROLLER_ANNOTATIONS,
    CONTROLLER_FINALIZERS,
    DEFAULTS_BY_KIND,
    OMITTED_VALUES,
    RELOAD_PATH,
    RELOADED_ANNOTATION,
    TRACKING_ANNOTATION,
)
from allotment.observed.quantity import parse_quantity
from allotment.problems import escape_unprintable

MAX_DIFFERENCES = 5  # the most differences that are reported for one object
MAX_SEGMENT_LENGTH = 80  # the most characters of a field's name that are displayed
COMPARED_KINDS = tuple(DEFAULTS_BY_KIND)
_COMPARED_METADATA = (
    "labels",
    "annotations",
    "finalizers",
)  # the API server and controllers write the other fields of metadata
# For each list, the fields by which the API server identifies an element of the list.
_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
}
_SERVICE_PORTS = "spec/ports", ("port", "protocol")
_QUANTITIES = frozenset({"limits", "requests", "hard", "default", "defaultRequest"})
_CHANGE_TEXTS = {"added": "isn't published", "missing": "is missing", "changed": "isn't as published"}
_PLAIN_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class Difference(NamedTuple):
    """A field that differs from its published version.

    `field` is the field's path in printable form, such as `spec.template.spec.containers[sidecar]`.
    """

    field: str
    change: Literal["added", "missing", "changed"]

    def __str__(self) -> str:
        return f"{self.field} {_CHANGE_TEXTS[self.change]}"


class _FieldPath:
    """A field: its name, and the field that contains it. The path of a field is built only if it is needed."""

    __slots__ = ("_is_element", "_name", "_parent")

    def __init__(self, parent: _FieldPath | None = None, name: object = "", *, is_element: bool = False) -> None:
        self._parent, self._name, self._is_element = parent, name, is_element

    def child(self, name: str) -> _FieldPath:
        """Return the path of the field `name` in the mapping at this path."""
        return _FieldPath(self, name)

    def element(self, name: object) -> _FieldPath:
        """Return the path of the element `name` of the list at this path."""
        return _FieldPath(self, name, is_element=True)

    @property
    def display(self) -> str:
        """The path in printable form."""
        if self._parent is None:
            return ""
        text = escape_unprintable(str(self._name), MAX_SEGMENT_LENGTH)
        if self._is_element:
            return f"{self._parent.display}[{text}]"
        step = f".{text}" if _PLAIN_CHARACTERS.issuperset(str(self._name)) else f"[{text}]"
        return f"{self._parent.display}{step}".removeprefix(".")

    @property
    def pattern(self) -> str:
        """The path as a pattern in the tables of `defaults`."""
        if self._parent is None:
            return ""
        return f"{self._parent.pattern}/*" if self._is_element else self._parent.child_pattern(str(self._name))

    def child_pattern(self, name: str) -> str:
        """Return the pattern of the field `name` in the mapping at this path."""
        return f"{self.pattern}/{name}".removeprefix("/")

    @property
    def last_segment(self) -> str:
        """The part of the pattern after its last slash."""
        return "*" if self._is_element else str(self._name).rpartition("/")[2]


def find_differences(published: Object, live: Object) -> tuple[Difference, ...]:
    """Return the differences between a published manifest and its live object, at most MAX_DIFFERENCES.

    Both objects have the same kind, one of COMPARED_KINDS. `live` may lack the fields apiVersion, kind and status.
    """
    kind = published["kind"]
    return tuple(islice(_Comparison(kind).compare_objects(published, live), MAX_DIFFERENCES))


class _Comparison:
    """Compares objects of one kind."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._defaults = DEFAULTS_BY_KIND[kind]
        self._restarts_on_change = False

    def compare_objects(self, published: Object, live: Object) -> Iterator[Difference]:
        """Yield the differences in the compared metadata, and then the differences in the fields outside the status."""
        published_metadata, live_metadata = published.get("metadata", {}), live.get("metadata", {})
        self._restarts_on_change = RELOAD_SECRETS in (published_metadata.get("annotations") or {})
        root = _FieldPath().child("metadata")
        for name in _COMPARED_METADATA:
            path = root.child(name)
            if name == "finalizers":
                yield from self._compare_finalizers(
                    published_metadata.get(name) or [], live_metadata.get(name) or [], path
                )
            else:
                yield from self._compare_mappings(
                    published_metadata.get(name) or {}, live_metadata.get(name) or {}, path
                )
        head = {"apiVersion", "kind", "metadata", "status"}
        published_fields = {key: value for key, value in published.items() if key not in head}
        live_fields = {key: value for key, value in live.items() if key not in head}
        yield from self._compare_mappings(published_fields, live_fields, _FieldPath())

    def _compare_finalizers(
        self, published: Sequence[str], live: Sequence[str], path: _FieldPath
    ) -> Iterator[Difference]:
        known_finalizers = {*published, *CONTROLLER_FINALIZERS.get(self._kind, ())}
        yield from (Difference(path.element(name).display, "added") for name in live if name not in known_finalizers)
        yield from (Difference(path.element(name).display, "missing") for name in published if name not in live)

    def _compare_mappings(
        self, published: Mapping[str, Any], live: Mapping[str, Any], path: _FieldPath
    ) -> Iterator[Difference]:
        for name, value in published.items():
            live_value = live.get(name)
            if value == live_value and _has_same_types(value, live_value):
                continue  # most fields are identical, and need no path
            field = path.child(name)
            if live_value is not None:
                yield from self._compare_values(value, live_value, field)
            elif value is not None and not _is_omitted(field, value):
                yield Difference(field.display, "missing")
        for name, value in live.items():
            if value is not None and published.get(name) is None and not self._is_default(path, name, live):
                yield Difference(path.child(name).display, "added")

    def _is_default(self, path: _FieldPath, name: str, live: Mapping[str, Any]) -> bool:
        """Return whether a live field that isn't published has its default value."""
        if (name == TRACKING_ANNOTATION or name in CONTROLLER_ANNOTATIONS.get(self._kind, ())) and (
            path.pattern == "metadata/annotations"
        ):
            return True
        if self._restarts_on_change and path.child_pattern(name) == RELOAD_PATH:
            return bool(live[name].keys() == {RELOADED_ANNOTATION})
        if self._restarts_on_change and path.pattern == RELOAD_PATH:
            return name == RELOADED_ANNOTATION
        default = self._defaults.get(path.child_pattern(name))
        return default is not None and default(live[name], live)

    def _compare_values(self, published: Any, live: Any, path: _FieldPath) -> Iterator[Difference]:
        if isinstance(published, Mapping) and isinstance(live, Mapping):
            yield from self._compare_mappings(published, live, path)
        elif isinstance(published, list) and isinstance(live, list):
            yield from self._compare_lists(published, live, path)
        elif not _is_same(published, live, path):
            yield Difference(path.display, "changed")

    def _compare_lists(self, published: list[Any], live: list[Any], path: _FieldPath) -> Iterator[Difference]:
        keys = _find_identity_keys(path, published, live)
        if keys is not None:
            yield from self._compare_keyed_items(_index_by_key(published, keys), _index_by_key(live, keys), path)
        elif len(published) == len(live) and all(isinstance(each, Mapping) for each in (*published, *live)):
            for index, (published_element, live_element) in enumerate(zip(published, live, strict=True)):
                yield from self._compare_values(published_element, live_element, path.element(index))
        elif published != live:
            yield Difference(path.display, "changed")

    def _compare_keyed_items(
        self, published: Mapping[tuple[Any, ...], Any], live: Mapping[tuple[Any, ...], Any], path: _FieldPath
    ) -> Iterator[Difference]:
        for key, value in published.items():
            element = path.element(key[0])
            if key in live:
                yield from self._compare_values(value, live[key], element)
            else:
                yield Difference(element.display, "missing")
        for key in live:
            if key not in published:
                yield Difference(path.element(key[0]).display, "added")


def _is_omitted(path: _FieldPath, value: Any) -> bool:
    return any(
        path.pattern.endswith(f"/{field}") and _is_identical(value, empty) for field, empty in OMITTED_VALUES.items()
    )


def _is_identical(value: Any, other: Any) -> bool:
    """Return whether two values are equal and have the same type. By value alone, 1 equals True in Python."""
    return type(value) is type(other) and bool(value == other)


def _has_same_types(value: Any, other: Any) -> bool:
    """Return whether two equal JSON values have the same type everywhere, so that a comparison finds no difference."""
    kind = type(value)
    if kind is not type(other):
        return False
    if kind is dict:
        for name, inner in value.items():
            if not _has_same_types(inner, other[name]):
                return False
    elif kind is list:
        for inner, other_inner in zip(value, other, strict=True):
            if not _has_same_types(inner, other_inner):
                return False
    return True


def _is_same(published: Any, live: Any, path: _FieldPath) -> bool:
    if _is_identical(published, live):
        return True
    parts = path.pattern.split("/")
    if parts[-1] == "sizeLimit" or _QUANTITIES & set(parts[:-1]):
        return parse_quantity(published) == parse_quantity(live) != 0
    return False


def _find_identity_keys(path: _FieldPath, *lists: list[Any]) -> tuple[str, ...] | None:
    """Return the fields that identify the elements of both lists; None if no fields identify them."""
    keys = _LIST_KEYS.get(path.last_segment)
    if keys is None:
        return None
    if path.pattern == _SERVICE_PORTS[0]:
        keys = _SERVICE_PORTS[1]
    for elements in lists:
        if not all(isinstance(each, Mapping) and keys[0] in each for each in elements):
            return None
        if len(_index_by_key(elements, keys)) < len(elements):
            return None
    return keys


def _index_by_key(elements: list[Any], keys: tuple[str, ...]) -> dict[tuple[Any, ...], Any]:
    return {tuple(str(each.get(key, "TCP")) for key in keys): each for each in elements}
