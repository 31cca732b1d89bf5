"""Define references: fields that name another declaration.

The type of such a field is annotated with the kind of the other declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, Field

from allotment.declared.values import ResourceName
from allotment.problems import FieldPath


class ReferenceTo(NamedTuple):
    """The kind of the declaration that a field names.

    If no declaration has the name, `advice` is the end of the error message. `bucket` says whether the field must name
    a bucket.
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
SecretReferenceName = Annotated[Name, ReferenceTo("SecretReference", "; `allot secret create` declares a secret")]
SnapshotReference = Annotated[ResourceName, ReferenceTo("GPUStorageSnapshot")]
SnapshotOf = Annotated[Name, ReferenceTo("GPUStorage", "; a storage stays while a snapshot of it exists")]
StorageSpecReference = Annotated[Name, ReferenceTo("StorageSpec")]
TenantReference = Annotated[Name, ReferenceTo("Tenant")]


class Reference(NamedTuple):
    """A field that names another declaration, with the kind and the name of the other declaration."""

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
    """Return the fields of a model that are references or contain references."""
    fields = []
    for name, info in model.model_fields.items():
        parts = [*info.metadata, *_parts(info.annotation)]
        to = next((part for part in parts if isinstance(part, ReferenceTo)), None)
        models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        if to is not None or any(reference_fields(part) for part in models):
            fields.append(_Field(name, info.alias or name, to))
    return tuple(fields)


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield a type annotation and all annotations inside it."""
    yield annotation
    for part in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
        yield from _parts(part)
