"""Stock: the units of a GPUSpec in a node pool."""

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.references import GPUSpecReference, NodePoolReference, TenantReference
from allotment.declared.values import CountOrZero


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


class Stock(Declaration):
    """The units of a GPUSpec in a node pool. The stock of a GPUSpec in a cluster is the sum of its Stocks.

    Placeholders (pause pods) keep free units warm. When an instance starts, its pods preempt placeholders.
    """

    kind: Literal["Stock"]
    spec: StockSpec
