"""Define references: fields that name another declaration, each annotated with its kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, Field

from allotment.declared.values import ResourceName
from allotment.problems import FieldPath


class ReferenceTo(NamedTuple):
    """The kind that a field names. `advice` follows the message of a missing target; `bucket` limits targets to
    buckets.
    """

    kind: str
    advice: str = ""
    bucket: bool = False


Name = Annotated[str, Field(min_length=1, max_length=64)]
AppReference = Annotated[Name, ReferenceTo("App")]
BucketReference = Annotated[Name, ReferenceTo("GPUStorage", bucket=True)]
ClusterReference = Annotated[Name, ReferenceTo("Cluster")]
GPUSpecReference = Annotated[Name, ReferenceTo("GPUSpec")]
GPUStorageReference = Annotated[Name, ReferenceTo("GPUStorage")]
NodePoolReference = Annotated[Name, ReferenceTo("NodePool")]
PlanReference = Annotated[Name, ReferenceTo("Plan")]
SnapshotReference = Annotated[ResourceName, ReferenceTo("GPUStorageSnapshot")]
SnapshotOf = Annotated[Name, ReferenceTo("GPUStorage", "; a storage stays while a snapshot of it exists")]
StorageSpecReference = Annotated[Name, ReferenceTo("StorageSpec")]
TenantReference = Annotated[Name, ReferenceTo("Tenant")]


class Reference(NamedTuple):
    """A field of a declaration, its target kind, and its value."""

    field: FieldPath
    to: ReferenceTo
    name: str


class _Field(NamedTuple):
    name: str
    alias: str
    to: ReferenceTo | None


def references(value: Any, field: FieldPath = (), to: ReferenceTo | None = None) -> Iterator[Reference]:
    """Yield the references in a declaration, or in a part of it."""
    if isinstance(value, BaseModel):
        for part in reference_fields(type(value)):
            yield from references(getattr(value, part.name), (*field, part.alias), part.to)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from references(item, (*field, index), to)
    elif isinstance(value, str) and to is not None:
        yield Reference(field, to, value)


@cache
def reference_fields(model: type[BaseModel]) -> tuple[_Field, ...]:
    """Return the fields of a model that are references or contain some."""
    fields = []
    for name, info in model.model_fields.items():
        parts = [*info.metadata, *_parts(info.annotation)]
        to = next((part for part in parts if isinstance(part, ReferenceTo)), None)
        models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        if to is not None or any(reference_fields(part) for part in models):
            fields.append(_Field(name, info.alias or name, to))
    return tuple(fields)


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield an annotation and all of its parts."""
    yield annotation
    for part in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
        yield from _parts(part)
