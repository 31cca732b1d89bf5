"""GPUSpec: a size of GPU instance in the catalog."""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import CatalogSpec, Declaration, StrictModel, unique_by
from allotment.declared.kinds.sharing import GpuModel, SpecSharing
from allotment.declared.values import GIBI, Count, Cpu, Date, Money, Size, format_size

DEFAULT_EPHEMERAL_STORAGE = 20 * GIBI  # of each container of a tenant; a framework with its wheels fits


class Gpu(StrictModel):
    """The number of GPUs, or of slices of a GPU, that a unit has, and the properties of the physical GPU."""

    model: GpuModel = Field(description="The model of the GPU, as in node pools, such as nvidia-l4.")
    count: Annotated[int, Field(ge=1, le=64)] = Field(description="The number of GPUs, or slices, of a unit.")
    memory: Size = Field(description="The memory of the physical GPU.")
    cuda_cores: Count | None = Field(
        default=None, description="The number of CUDA cores of the physical GPU, for comparison only."
    )


class HourlyPrice(StrictModel):
    """The price of a unit. It applies from its first day until the first day of the next entry."""

    start: Date = Field(
        alias="from",
        description="The first day of the price, quoted. The day starts at midnight in the billing time zone.",
    )
    per_hour: Money = Field(
        description="The price of a unit for each hour that an instance holds it, in the platform's currency, quoted."
    )


class GPUSpecSpec(CatalogSpec):
    """The resources and prices of a unit.

    All fields except prices, ephemeralStorage, texts and lifecycle are immutable once merged.
    """

    gpu: Gpu
    cpu: Cpu = Field(description="The CPU cores of a unit.")
    memory: Size = Field(description="The memory of a unit.")
    disk: Size = Field(
        description="The size of the unit's disk at /scratch. The disk is erased whenever the instance stops."
    )
    ephemeral_storage: Size | None = Field(
        default=None,
        description="The limit of the files that a container writes outside of /scratch and storages, with its logs. They"
        " are on the disk of the node, which keeps this space free for each unit. The node evicts a pod that exceeds it. A"
        f" change restarts the instances. Default: a limit of {format_size(DEFAULT_EPHEMERAL_STORAGE)}, for which the node keeps 128Mi free. Validation does not know the disks of nodes: a pod for which no"
        " node has the space waits.",
    )
    sharing: SpecSharing | None = Field(
        default=None, description="How units share a GPU. Default: a unit has exclusive use of its GPUs."
    )
    tenancy: Literal["Single", "Multi"] | None = Field(
        default=None,
        description="Whether units of several tenants may share a GPU. Required with time-slicing and MPS, and not"
        " allowed otherwise. Single requires that each stock is reserved for a tenant.",
    )
    capacity_type: Literal["OnDemand", "Spot"] = Field(
        default="OnDemand", description="Whether the cloud provider may reclaim the nodes (Spot)."
    )
    prices: Annotated[list[HourlyPrice], unique_by("start")] = Field(
        min_length=1, description="The prices, by their first day. Prices of past days are immutable."
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
    """The texts of error messages about a sharing mode in software (time-slicing or MPS)."""

    field: str
    spec: str
    unit: str


_SHARED_IN_SOFTWARE = {
    "time_slicing": _SharingMode("timeSlicing", "a time-sliced spec", "a time-sliced unit is one slice"),
    "mps": _SharingMode("mps", "an MPS spec", "a unit of MPS is a part of one GPU"),
}


class GPUSpec(Declaration):
    """A size of GPU instance in the catalog: its GPU or GPU slice, CPU, memory, disk and price.

    A replica of an instance gets a unit of this size. Stocks declare the number of units.
    """

    kind: Literal["GPUSpec"]
    spec: GPUSpecSpec
