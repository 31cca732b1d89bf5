"""Stock: the units of a GPUSpec in a node pool."""

from typing import Annotated, Literal, Self

from pydantic import Field, PrivateAttr, model_validator
from pydantic_core import PydanticCustomError

from allotment.declared.kinds.declaration import Declaration, Spec, StrictModel
from allotment.declared.references import GPUSpecReference, NodePoolReference, TenantReference
from allotment.declared.values import CountOrZero, Money


class Reservation(StrictModel):
    """The price of the reserved units that their tenant doesn't use."""

    fraction: Annotated[Money, Field(le=1)] = Field(
        description="The part of the price of the GPUSpec that the tenant pays for each hour of a unit that it doesn't use, quoted, such as"
        ' "0.5". It applies from the merge on.'
    )


class StockSpec(Spec):
    """The number of units, their GPUSpec and their node pool."""

    gpu_spec: GPUSpecReference = Field(description="The name of the GPUSpec of the units.")
    node_pool: NodePoolReference = Field(
        description="The name of the NodePool. Its model, sharing and capacityType must match the GPUSpec."
    )
    count: CountOrZero = Field(
        description="The number of units that tenants may hold. The nodes of the pool must have room for all of its"
        " Stocks together."
    )
    warm: CountOrZero | None = Field(
        default=None,
        description="The number of free units that placeholders keep warm. Default: all. Karpenter adds nodes for the"
        " others on demand.",
    )
    tenant: TenantReference | None = Field(
        default=None,
        description="The name of the tenant that the units are reserved for. Default: all tenants may hold them.",
    )
    reservation: Reservation | None = Field(
        default=None,
        description="The price of reserved units without a use. Default: they are free. Requires `tenant`.",
    )

    _cordoned_units: int = PrivateAttr(default=0)

    @property
    def cordoned_units(self) -> int:
        """The declared units that `count` lacks, because they have no room while nodes are cordoned."""
        return self._cordoned_units

    @property
    def declared_count(self) -> int:
        """The units of the file."""
        return self.count + self._cordoned_units

    def with_cordoned_units(self, units: int) -> Self:
        """Return the spec while `units` of the declared units have no room."""
        spec = self.model_copy(update={"count": self.declared_count - units})
        spec._cordoned_units = units
        return spec

    @model_validator(mode="after")
    def _check_reservation(self) -> Self:
        if self.reservation is not None and self.tenant is None:
            raise PydanticCustomError(
                "stock-shape",
                "reservation is given, but the units are reserved for no tenant: add tenant, or remove it",
            )
        return self


class Stock(Declaration):
    """The units of a GPUSpec in a node pool. The stock of a GPUSpec in a cluster is the sum of its Stocks.

    Placeholders (pause pods) keep free units warm. When an instance starts, its pods preempt placeholders.
    """

    kind: Literal["Stock"]
    spec: StockSpec
