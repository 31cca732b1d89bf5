"""Finds the model, the type and the reference of a field by its path, in the models of the declared kinds."""

from __future__ import annotations

import typing
from typing import Any, NamedTuple

from pydantic import BaseModel

from allotment.declared.reading import without_optional
from allotment.declared.references import ReferenceTo, reference_fields
from allotment.problems import FieldPath


class FieldType(NamedTuple):
    """The type of a field. `reference` is the kind of declaration that its value names; None if it names none."""

    annotation: Any
    reference: ReferenceTo | None

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the mapping by name; empty if the field is no mapping with declared fields."""
        if not _is_model(self.annotation):
            return {}
        return {str(field.alias): field for field in self.annotation.model_fields.values()}

    @property
    def choices(self) -> tuple[str, ...]:
        """The only values of the field; empty if it has others."""
        if self.annotation is bool:
            return ("true", "false")
        return tuple(map(str, typing.get_args(self.annotation))) if _origin(self.annotation) is typing.Literal else ()

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return _origin(self.annotation) is list

    @property
    def is_group(self) -> bool:
        """Whether the value is a mapping or a list."""
        return _is_model(self.annotation) or _origin(self.annotation) in (list, dict) or self.annotation is Any


def find_field_type(model: type[BaseModel], field: FieldPath) -> FieldType | None:
    """Return the type of a field of a model; None if there is no such field."""
    current = FieldType(model, None)
    for part in field:
        annotation = current.annotation
        if isinstance(part, int):
            if _origin(annotation) is not list:
                return None
            current = FieldType(without_optional(typing.get_args(annotation)[0]), current.reference)
        elif _is_model(annotation):
            if part not in current.fields:
                return None
            to = next((each.to for each in reference_fields(annotation) if each.alias == part), None)
            current = FieldType(without_optional(current.fields[part].annotation), to)
        elif _origin(annotation) is dict:
            current = FieldType(without_optional(typing.get_args(annotation)[1]), None)
        else:
            return None
    return current


def find_type_by_key(model: type[BaseModel], path: tuple[str, ...]) -> FieldType | None:
    """Return the type of a field, given by a path in which the items of lists have keys, such as their names."""
    field: list[str | int] = []
    for key in path:
        parent = find_field_type(model, tuple(field))
        field.append(0 if parent is not None and parent.is_list else key)
    return find_field_type(model, tuple(field))


def format_pattern(field: FieldPath) -> str:
    """Return a field path without the numbers of items: `spec.storages[].name`."""
    return ".".join("[]" if isinstance(part, int) else part for part in field).replace(".[]", "[]")


def _origin(annotation: Any) -> Any:
    return typing.get_origin(annotation)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
