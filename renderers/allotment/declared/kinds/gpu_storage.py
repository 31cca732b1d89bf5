"""GPUStorage: a volume of a tenant."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from allotment.declared.kinds.declaration import Declaration, Spec, Strict, one_of
from allotment.declared.values import Image, Reference, Size


class ImageSource(Strict):
    """A program that fills the storage: it writes into /workspace and ends."""

    image: Image
    command: list[str] = Field(default=[], max_length=100)
    args: list[str] = Field(default=[], max_length=500)


class Source(Strict):
    """Where the content comes from: exactly one of the members."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("image",)
    image: ImageSource | None = None
    _exactly_one = model_validator(mode="after")(one_of)


class Prepare(Strict):
    """How the storage is filled before anyone mounts it."""

    source: Source
    attempt: Annotated[int, Field(ge=1, le=9999)] = Field(default=1, description="One more runs the preparation again.")


class Accessor(Strict):
    """A read-only web page of the storage's files."""

    exposure: Literal["Namespace", "Members", "Public"] = "Members"


class GPUStorageSpec(Spec):
    """A volume. Its cluster and storageSpec are immutable."""

    cluster: Reference
    storage_spec: Reference
    size: Size = Field(description="Grows, never shrinks.")
    prepare: Prepare | None = Field(
        default=None, description="Instances that mount the storage wait until it has succeeded."
    )
    accessor: Accessor | None = Field(default=None, description="Absent: no web page.")
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Delete is the first of the two merges that delete data; removing the file is the second.",
    )


class GPUStorage(Declaration):
    """A volume of a tenant, in one cluster, that its instances mount.

    It outlives them. It is deleted in two merges: deletionPolicy: Delete, then without the file.
    """

    kind: Literal["GPUStorage"]
    spec: GPUStorageSpec
