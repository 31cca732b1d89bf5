"""StorageSpec: a type of storage in the catalog."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel, check_one_of, unique_by
from allotment.declared.values import Date, Money, Size, format_size


class Volume(StrictModel):
    """A volume, which is a PersistentVolumeClaim in the cluster."""

    access_mode: Literal["ReadWriteOnce", "ReadWriteMany"] = Field(
        description="ReadWriteOnce: block storage, mounted by one instance at a time. ReadWriteMany: files, by any number."
    )


class Bucket(StrictModel):
    """A bucket in the object store of the cluster."""


class SizeRange(StrictModel):
    """The allowed sizes of a storage."""

    min: Size = Field(description="The minimum size of a storage.")
    max: Size = Field(description="The maximum size of a storage.")

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
    """The price of a GiB. It applies from its first day until the first day of the next entry."""

    start: Date = Field(
        alias="from",
        description="The first day of the price, quoted. The day starts at midnight in the billing time zone.",
    )
    per_gib_month: Money = Field(
        alias="perGiBMonth",
        description="The price of a GiB for a month of 730 hours, in the platform's currency, quoted.",
    )


class StorageSpecSpec(CatalogSpec):
    """The type (exactly one of volume and bucket), sizes and prices. Each Cluster sets the StorageClass."""

    ONE_OF: ClassVar[tuple[str | None, ...]] = ("volume", "bucket")
    volume: Volume | None = None
    bucket: Bucket | None = None
    size: SizeRange
    prices: Annotated[list[MonthlyPrice], unique_by("start")] = Field(
        min_length=1, description="The prices, by their first day. Prices of past days are immutable."
    )
    snapshot_prices: Annotated[list[MonthlyPrice], unique_by("start")] = Field(
        default=[],
        description="The prices of snapshots, for the size of their storage. Default: the storage can't have snapshots.",
    )
    _check_one_of = model_validator(mode="after")(check_one_of)

    @property
    def access(self) -> str:
        """ReadWriteOnce, ReadWriteMany or Bucket."""
        return self.volume.access_mode if self.volume is not None else "Bucket"

    @property
    def is_single_node(self) -> bool:
        """Whether only a single node at a time may mount the storage."""
        return self.access == "ReadWriteOnce"


class StorageSpec(Declaration):
    """A type of storage in the catalog: a volume with an access mode, or a bucket. It sets the sizes and the prices.

    A Cluster lists the StorageSpecs that it provides, each with its StorageClass and capacity.
    """

    kind: Literal["StorageSpec"]
    spec: StorageSpecSpec
