"""Stock: how many units of a GPUSpec a node pool holds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.references import GPUSpecReference, NodePoolReference, TenantReference
from allotment.declared.values import CountOrZero


class StockSpec(Spec):
    """Units of a GPUSpec in a node pool."""

    gpu_spec: GPUSpecReference = Field(description="The GPUSpec whose units these are.")
    node_pool: NodePoolReference = Field(description="Its model, sharing and capacityType agree with the GPUSpec's.")
    count: CountOrZero = Field(description="Units that tenants may hold. All Stocks of a pool together fit its nodes.")
    warm: CountOrZero | None = Field(
        default=None,
        description="How many of the free units are kept ready by placeholders; absent: all. Nodes come for the rest when needed.",
    )
    tenant: TenantReference | None = Field(default=None, description="Held for this tenant alone.")


class Stock(Declaration):
    """How many units of a GPUSpec a node pool holds. The Stocks of a spec in a cluster add up.

    Free units are held by placeholder pods that a starting instance pushes aside.
    """

    kind: Literal["Stock"]
    spec: StockSpec
