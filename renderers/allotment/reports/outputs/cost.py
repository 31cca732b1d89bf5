"""The output of `allot cost` as JSON, and the rows of its output as CSV."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec

from allotment.billing.declared_costs import DeclaredCosts, TenantMonth
from allotment.capacity.pricing import Cost
from allotment.declared.tenant_resources import INSTANCE
from allotment.declared.values import GIBI
from allotment.output_part import Part
from allotment.reports.outputs.bill import AmountOutput
from allotment.reports.outputs.output import Output
from allotment.reports.outputs.usage import ClusterRecordOutput, cluster_record_outputs, round_number


class ResourceCostOutput(Part, frozen=True, kw_only=True):
    """The cost of a declared resource.

    `units` is the number of units of a running instance, and `sizeGiB` the size of a storage or snapshot. `price` is per unit
    and hour, or per GiB and month; it is null if the spec has no price yet. `perMonth` is the cost of 730 hours.
    """

    tenant: str
    resource_kind: str
    name: str
    cluster: str
    spec: str
    labels: dict[str, str]
    units: int | None
    size_gib: Decimal | None = msgspec.field(name="sizeGiB")
    price: Decimal | None
    per_month: Decimal


class TenantCostOutput(Part, frozen=True, kw_only=True):
    """The cost of a tenant.

    `perMonth` is the cost of its declared resources for 730 hours; it is null if none of them has a price yet. `soFar` is the
    cost of the recorded usage of the month. A use that continued at the last observation counts until now. In a time without
    observations, the declared resources count, if they cost more; `unobserved` is this excess. `forecast` adds the declared
    resources until the end of the month. These are null if no usage is recorded. `usedPercent` is `forecast` in percent of the
    budget, rounded down. The cost leaves out `invalidFiles` and `unpricedResources`. `notes` name clusters without known
    usage so far.
    """

    tenant: str
    per_month: Decimal | None
    so_far: Decimal | None
    unobserved: Decimal | None
    forecast: Decimal | None
    budget: Decimal | None
    enforcement: str | None
    used_percent: int | None
    invalid_files: int
    unpriced_resources: int
    notes: tuple[str, ...]


class CostOutput(Output, frozen=True, kw_only=True, tag="CostOutput"):
    """The costs of the declared resources at the prices of the day `asOf`, and the forecast of the month.

    `commit` is the commit of the declarations. `clusters` are the records of the usage so far. `sums` are those of each group
    of --by.
    """

    month: str
    as_of: datetime.date
    currency: str
    commit: str
    clusters: tuple[ClusterRecordOutput, ...]
    resources: tuple[ResourceCostOutput, ...]
    tenants: tuple[TenantCostOutput, ...]
    sums: tuple[AmountOutput, ...]


def resource_cost_output(cost: Cost) -> ResourceCostOutput:
    """Return the output of the cost of a resource."""
    is_instance = cost.kind == INSTANCE.kind.name
    return ResourceCostOutput(
        tenant=cost.tenant,
        resource_kind=cost.kind,
        name=cost.name,
        cluster=cost.cluster,
        spec=cost.offer,
        labels=dict(cost.labels),
        units=cost.quantity if is_instance else None,
        size_gib=None if is_instance else round_number(Decimal(cost.quantity) / GIBI),
        price=cost.price if cost.has_price else None,
        per_month=round_number(cost.per_month if cost.has_price else Decimal(0)),
    )


def tenant_cost_output(each: TenantMonth) -> TenantCostOutput:
    """Return the output of the cost of a tenant."""
    spending, forecast = each.spending, each.forecast
    return TenantCostOutput(
        tenant=spending.tenant,
        per_month=None if spending.cost is None else round_number(spending.cost),
        so_far=forecast.so_far if forecast else None,
        unobserved=forecast.unobserved if forecast else None,
        forecast=forecast.after if forecast else None,
        budget=spending.budget.per_month if spending.budget else None,
        enforcement=spending.budget.enforcement if spending.budget else None,
        used_percent=forecast.percent if forecast else None,
        invalid_files=spending.invalid_files,
        unpriced_resources=spending.unpriced_resources,
        notes=each.notes,
    )


def cost_output(costs: DeclaredCosts, sums: tuple[AmountOutput, ...] = ()) -> CostOutput:
    """Return the output of the costs of a month, with the sums of --by."""
    return CostOutput(
        month=costs.month,
        as_of=costs.day,
        currency=costs.currency,
        commit=costs.commit,
        clusters=cluster_record_outputs(costs.clusters, costs.period),
        resources=tuple(map(resource_cost_output, costs.resources)),
        tenants=tuple(map(tenant_cost_output, costs.tenants)),
        sums=sums,
    )
