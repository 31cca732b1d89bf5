"""The JSON output of `allot spec list`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from allotment.declared.values import format_size
from allotment.observed.offer_rows import SpecRow
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of


class SpecRowOutput(Part, frozen=True, kw_only=True):
    """A GPUSpec in a cluster with a stock of it; `cluster` is null if no cluster has a stock.

    `gpuMemory` is the memory of each GPU or GPU slice, and `gpus` the number of physical GPUs of a unit. `total`, `held` and
    `free` count the units of shared stocks, and `reserved` the units of stocks that are reserved for single tenants.
    `pricePerHour` is the price of a unit; it is null if the GPUSpec is not for sale.
    """

    name: str
    cluster: str | None
    gpu_model: str
    gpu_memory: str
    gpus: float
    cpu: float
    memory: str
    disk: str
    sharing: str
    lifecycle: str
    total: int
    held_units: int = msgspec.field(name="held")
    free: int
    reserved: int
    price_per_hour: Decimal | None


class SpecListOutput(Output, frozen=True, kw_only=True, tag="SpecListOutput"):
    """The selected GPUSpecs in the requested order, and the currency of their prices."""

    currency: str
    specs: tuple[SpecRowOutput, ...]


def spec_rows_output(rows: Iterable[SpecRow]) -> tuple[SpecRowOutput, ...]:
    """Return the output of GPUSpecs."""
    return tuple(
        output_of(
            SpecRowOutput,
            row,
            gpu_memory=format_size(row.gpu_memory),
            cpu=row.cpu / 1000,
            memory=format_size(row.memory),
            disk=format_size(row.disk),
        )
        for row in rows
    )
