"""GPUSpec: a size of GPU instance on offer."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel, unique_by
from allotment.declared.kinds.sharing import GpuModel, SpecSharing
from allotment.declared.values import Count, Cpu, Date, Money, Size


class Gpu(StrictModel):
    """The physical device that a unit, or a slice of a unit, lies on."""

    model: GpuModel = Field(description="The model, as node pools name it: nvidia-l4.")
    count: Annotated[int, Field(ge=1, le=64)] = Field(description="GPUs (or slices) of one unit.")
    memory: Size = Field(description="Memory of the physical GPU.")
    cuda_cores: Count | None = Field(default=None, description="CUDA cores of the physical GPU, for people to compare.")


class HourlyPrice(StrictModel):
    """What a unit costs from a day on, until the next entry's day."""

    start: Date = Field(alias="from", description="The first day, quoted; from midnight in the billing time zone.")
    per_hour: Money = Field(description="Currency per hour of one unit while it is held, quoted.")


class GPUSpecSpec(CatalogSpec):
    """What one unit is. All but prices, texts and lifecycle is immutable once merged."""

    gpu: Gpu
    cpu: Cpu = Field(description="Cores of a unit.")
    memory: Size = Field(description="Memory of a unit.")
    disk: Size = Field(description="A unit's own disk at /scratch, erased at every stop.")
    sharing: SpecSharing | None = Field(
        default=None, description="How a GPU is divided; absent means the unit has its GPUs alone."
    )
    tenancy: Literal["Single", "Multi"] | None = Field(
        default=None,
        description="Of time-slicing and MPS only: whether tenants share a GPU. Single needs stocks of one tenant.",
    )
    capacity_type: Literal["OnDemand", "Spot"] = Field(
        default="OnDemand", description="Whether the cloud may take the nodes back."
    )
    prices: Annotated[list[HourlyPrice], unique_by("start")] = Field(
        min_length=1, description="Prices by their first day; past ones are immutable."
    )

    @model_validator(mode="after")
    def _check_sharing(self) -> Self:
        way = _SHARED_IN_SOFTWARE.get((self.sharing and self.sharing.chosen_member) or "")
        if way is not None and self.gpu.count != 1:
            raise PydanticCustomError(
                "spec-shape",
                "gpu.count is {n} and sharing is {member}: {unit}",
                {"n": self.gpu.count, "member": way.field, "unit": way.unit},
            )
        if way is not None and self.tenancy is None:
            raise PydanticCustomError(
                "spec-shape", "tenancy is missing: {spec} says Single or Multi", {"spec": way.spec}
            )
        if self.tenancy is not None and way is None:
            raise PydanticCustomError(
                "spec-shape", "tenancy is given, but only time-slicing and MPS share a GPU between units: remove it"
            )
        return self


class _SharingMode(NamedTuple):
    """A way of sharing that tells no unit from another in hardware, in the words of a message."""

    field: str
    spec: str
    unit: str


_SHARED_IN_SOFTWARE = {
    "time_slicing": _SharingMode("timeSlicing", "a time-sliced spec", "a time-sliced unit is one slice"),
    "mps": _SharingMode("mps", "an MPS spec", "a unit of MPS is a part of one GPU"),
}


class GPUSpec(Declaration):
    """A size of GPU instance on offer: which GPU or slice of one, how much CPU, memory and disk, at what price.

    A unit is what one instance (or one replica of it) gets. How many units there are is said by Stocks.
    """

    kind: Literal["GPUSpec"]
    spec: GPUSpecSpec
