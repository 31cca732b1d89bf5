"""The output of `allot stock usage` as JSON, and the rows of its output as CSV."""

from __future__ import annotations

from decimal import Decimal

from allotment.billing.capacity_totals import CapacityTotal
from allotment.billing.usage_totals import to_hours
from allotment.output_part import Part
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.usage import ClusterRecordOutput, PeriodOutput, round_number


class CapacityOutput(Part, frozen=True, kw_only=True):
    """The unit hours of a GPUSpec in a cluster.

    `stock` = `sold` + `reserved` + `idle`. `reserved` are the unused hours of stocks that are reserved for a tenant. `oversold`
    are used hours beyond the stocks.
    """

    cluster: str
    spec: str
    stock: Decimal
    sold: Decimal
    reserved: Decimal
    idle: Decimal
    oversold: Decimal


class StockUsageOutput(Output, frozen=True, kw_only=True, tag="StockUsageOutput"):
    """The sold, reserved and idle time of stocks in a period, in the order of clusters and GPUSpecs."""

    period: PeriodOutput
    clusters: tuple[ClusterRecordOutput, ...]
    capacity: tuple[CapacityOutput, ...]


def capacity_output(total: CapacityTotal) -> CapacityOutput:
    """Return the output of the sums of a GPUSpec."""
    return CapacityOutput(
        cluster=total.cluster,
        spec=total.gpu_spec,
        stock=round_number(to_hours(total.stock)),
        sold=round_number(to_hours(total.sold)),
        reserved=round_number(to_hours(total.reserved)),
        idle=round_number(to_hours(total.idle)),
        oversold=round_number(to_hours(total.oversold)),
    )
