"""The base of the JSON output of every command."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import inspect

from allotment import API_VERSION

P = TypeVar("P", bound=msgspec.Struct)


class Output(msgspec.Struct, frozen=True, rename="camel", tag_field="kind", tag=str):
    """The result of a command. In JSON, `kind` and `apiVersion` come first, and names of fields are in camelCase.

    Within an API version, new releases only add fields, so readers must ignore the fields that they don't know.
    Subclasses are `frozen` and `kw_only`, so that `apiVersion` comes first.
    """

    api_version: Literal["allotment.dev/v1alpha1"] = API_VERSION


def output_of(kind: type[P], source: object, /, **values: Any) -> P:
    """Return an output of the type `kind`.

    A field gets the value in `values`, or else the attribute of `source` with the same name. Nested parts are built in
    the same way. Empty text becomes null if the field may be null. Raises AttributeError if `source` lacks an
    attribute.
    """
    for field in _fields_of(kind):
        if field.name not in values:
            values[field.name] = _convert_value(field.type, getattr(source, field.name))
    return kind(**values)


@lru_cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    description = inspect.type_info(kind)
    assert isinstance(description, inspect.StructType)
    return description.fields


def _convert_value(kind: inspect.Type, value: Any) -> Any:
    if isinstance(kind, inspect.UnionType):
        if value is None or value == "":
            return None
        kind = next(option for option in kind.types if not isinstance(option, inspect.NoneType))
    if isinstance(kind, inspect.VarTupleType):
        return tuple(_convert_value(kind.item_type, item) for item in value)
    if isinstance(kind, inspect.StructType) and not isinstance(value, kind.cls):
        return output_of(kind.cls, value)
    return value
