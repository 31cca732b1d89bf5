"""The JSON output of `allot stock search`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from allotment.declared.values import format_size
from allotment.observed.offer_rows import StockOffer
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class StockOfferOutput(Part, frozen=True, kw_only=True):
    """A stock with units of a GPUSpec.

    `gpuMemory` is the memory of each GPU or GPU slice. `tenant` is the tenant that the stock is reserved for; it is null for
    a shared stock. `ready` counts the running placeholders; it is null if the cluster has not reported the stock.
    `pricePerHour` is the price of a unit; it is null if the GPUSpec is not for sale.
    """

    cluster: str
    name: str
    gpu_spec: str
    gpu_model: str | None
    gpu_memory: str | None
    tenant: str | None
    total: int
    held_units: int = msgspec.field(name="held")
    free: int
    ready: int | None
    price_per_hour: Decimal | None


class StockSearchOutput(Output, frozen=True, kw_only=True, tag="StockSearchOutput"):
    """The stocks that match, in the requested order, and the currency of their prices."""

    currency: str
    stocks: tuple[StockOfferOutput, ...]


def stock_offers_output(rows: Iterable[StockOffer]) -> tuple[StockOfferOutput, ...]:
    """Return the output of stocks."""
    return tuple(
        output_of(StockOfferOutput, row, gpu_memory=format_size(row.gpu_memory) if row.gpu_memory else None)
        for row in rows
    )
