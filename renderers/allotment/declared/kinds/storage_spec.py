"""StorageSpec: a kind of storage on offer."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel, check_one_of, unique_by
from allotment.declared.values import Date, Money, Size, format_size


class Volume(StrictModel):
    """A PersistentVolumeClaim."""

    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = Field(
        description="ReadWriteOnce: block storage, mounted by one instance at a time. ReadWriteMany: files, by any number."
    )


class Bucket(StrictModel):
    """A bucket of the cluster's object store."""


class SizeRange(StrictModel):
    """The sizes a storage may have."""

    min: Size = Field(description="The smallest size that a storage may have.")
    max: Size = Field(description="The largest size that a storage may have.")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min > self.max:
            raise PydanticCustomError(
                "range",
                "min {min} is more than max {max}",
                {"min": format_size(self.min), "max": format_size(self.max)},
            )
        return self


class MonthlyPrice(StrictModel):
    """What a GiB costs from a day on, until the next entry's day."""

    start: Date = Field(alias="from", description="The first day, quoted; from midnight in the billing time zone.")
    per_gib_month: Money = Field(alias="perGiBMonth", description="Currency per GiB and month of 730 hours, quoted.")


class StorageSpecSpec(CatalogSpec):
    """What a storage of this kind is: exactly one of volume and bucket. Which StorageClass it is says each cluster."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("volume", "bucket")
    volume: Volume | None = None
    bucket: Bucket | None = None
    size: SizeRange
    prices: Annotated[list[MonthlyPrice], unique_by("start")] = Field(
        min_length=1, description="Prices by their first day; past ones are immutable."
    )
    snapshot_prices: Annotated[list[MonthlyPrice], unique_by("start")] = Field(
        default=[], description="Of snapshots, for the size of their storage; absent: no snapshots of it."
    )
    _check_one_of = model_validator(mode="after")(check_one_of)

    @property
    def is_single_node(self) -> bool:
        """Whether one node at a time may mount it."""
        return self.volume is not None and self.volume.access_mode == "ReadWriteOnce"


class StorageSpec(Declaration):
    """A kind of storage on offer: a volume and how it is mounted, or a bucket; how large it may be, what it costs.

    A Cluster lists the StorageSpecs it has, each with its StorageClass and capacity.
    """

    kind: Literal["StorageSpec"]
    spec: StorageSpecSpec
