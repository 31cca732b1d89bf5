"""The JSON output of `allot catalog`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

import msgspec

from allotment.capacity.pricing import HOURS_A_MONTH, is_sold, next_price, price_on
from allotment.capacity.units import gpu_memory_limit, physical_gpus
from allotment.declared.kinds.gpu_spec import HourlyPrice
from allotment.declared.kinds.storage_spec import MonthlyPrice
from allotment.declared.values import format_size
from allotment.output_part import Part
from allotment.reports.outputs.output import Output, output_of
from allotment.rules.availability import AppOffer, Barrier, GPUOffer, ReservedUnits, StorageOffer, TenantAllowance
from allotment.rules.limits import sharing_mode
from allotment.rules.spending import TenantSpending, total_cost

# For each cluster and GPUSpec: the ready units by the tenant that may hold them. The tenant "" stands for any tenant.
Ready = Mapping[tuple[str, str], Mapping[str, int]]


class PriceOutput(Part, frozen=True):
    """A price in the catalog's currency, and the first day on which the price applies."""

    start: datetime.date = msgspec.field(name="from")
    price: Decimal


class GPUSpecOutput(Part, frozen=True):
    """A GPUSpec in a cluster.

    `units` counts the units that any tenant may hold, and `free` the free units among them. `readyAtOnce` counts the
    free units that are on a running node; it is null if no reporter has reported them. With --tenant, these numbers
    include the units that are reserved for that tenant.

    `gpuMemory` is the memory of the physical GPU. `gpuMemoryLimit` is the most GPU memory that each process of a unit
    may use; it is null unless MPS sets a limit. `gpus` is the part of the GPU quota that a unit takes, such as 0.25 for
    a quarter of a GPU. The price is per unit and hour. If `isSold` is false, no price applies yet, and the output has the
    first future price. `barred` has the reasons why the tenant can't have another unit; it is empty if nothing prevents
    another unit.
    """

    name: str
    cluster: str
    display_name: str | None
    lifecycle: str
    model: str
    gpu_memory: str
    gpu_memory_limit: str | None
    gpus: float
    sharing: Literal["Exclusive", "TimeSlicing", "Mig", "Mps", "Dra"]
    tenancy: str | None
    capacity_type: str
    cpu: float
    memory: str
    disk: str
    price_per_hour: Decimal
    next_price: PriceOutput | None
    units: int
    free: int
    ready_at_once: int | None
    reserved: tuple[ReservedUnits, ...]
    barriers: tuple[Barrier, ...] = msgspec.field(name="barred")
    is_sold: bool


class StorageSpecOutput(Part, frozen=True):
    """A StorageSpec in a cluster.

    `capacity` is the capacity of the cluster for this StorageSpec, and `free` is the free part of this capacity. Prices
    are per GiB and month. The price for snapshots is null if the cluster offers no snapshots. If `isSold` is
    false, no price applies yet, and the output has the first future price.
    """

    name: str
    cluster: str
    display_name: str | None
    lifecycle: str
    access: Literal["ReadWriteOnce", "ReadWriteMany", "Bucket"]
    min_size: str
    max_size: str
    capacity: str
    free: str
    price_per_gib_month: Decimal = msgspec.field(name="pricePerGiBMonth")
    next_price: PriceOutput | None
    snapshot_price_per_gib_month: Decimal | None = msgspec.field(name="snapshotPricePerGiBMonth")
    barriers: tuple[Barrier, ...] = msgspec.field(name="barred")
    is_sold: bool


class AppFolderOutput(Part, frozen=True):
    """A folder that an app uses, where an instance can mount a storage."""

    path: str
    description: str | None


class AppOutput(Part, frozen=True):
    """A version of an app, and the exposures of its ports.

    `minMemory` is the least memory that a unit for the app must have; null means that any unit is large enough.
    `folders` are the folders where an instance can mount a storage.
    """

    name: str
    version: str
    display_name: str | None
    lifecycle: str
    replaced_by: str | None
    exposure: tuple[str, ...]
    min_memory: str | None
    barriers: tuple[Barrier, ...] = msgspec.field(name="barred")
    folders: tuple[AppFolderOutput, ...] = ()


class QuotaOutput(Part, frozen=True):
    """A part of the tenant's quota. `what` is instances, storages, snapshots, storage (in bytes), or a GPU model."""

    what: str
    limit: float
    used: float
    path: str


class BudgetOutput(Part, frozen=True):
    """The tenant's monthly budget, and the monthly cost of its declarations."""

    per_month: Decimal
    used: Decimal
    enforcement: str
    path: str


class AskingOutput(Part, frozen=True):
    """The tenant that --tenant names.

    `costPerMonth` is the cost of its declarations. `imageRegistries` are the registries from which the tenant may use
    its own images.
    """

    name: str
    plan: str | None
    lifecycle: str | None
    quota: tuple[QuotaOutput, ...]
    budget: BudgetOutput | None
    image_registries: tuple[str, ...]
    cost: Decimal = msgspec.field(name="costPerMonth")


class TenantSpendingOutput(Part, frozen=True):
    """The monthly cost of a tenant's declarations, and the budget of the tenant.

    `plan` is the tenant's tariff plan; it is null if it can't be read. `budgetPerMonth` is the budget of this plan; it
    is null if the plan has no budget. `left` is the rest of the budget; it is negative if the budget is overspent.
    `isWhole` is false if the cost excludes invalid files or resources without a price; in this case, `left` is null.
    `withoutPrice` counts the resources that have no price on the day. `costPerMonth` is null if no resource has a
    price.
    """

    tenant: str
    plan: str | None
    cost: Decimal | None = msgspec.field(name="costPerMonth")
    budget_per_month: Decimal | None
    remaining_budget: Decimal | None = msgspec.field(name="left")
    is_complete: bool = msgspec.field(name="isWhole")
    unpriced_resources: int = msgspec.field(name="withoutPrice")


class SpendingOutput(Part, frozen=True):
    """A forecast of the cost of each tenant for `hours` hours at the prices of `day`, with the total.

    Costs are in the catalog's currency. `commit` is the commit of the declarations, or the commit that is checked out
    in the work tree; it is null outside a Git repository. `withoutPrice` counts the resources without a price on `day`.
    The total excludes these resources; it is null if no resource has a price.
    """

    tenants: tuple[TenantSpendingOutput, ...]
    total_per_month: Decimal | None
    without_price: int
    commit: str | None
    day: datetime.date
    hours: int


class CatalogOutput(Output, frozen=True, kw_only=True, tag="CatalogOutput"):
    """The offers on a day: the offers for all tenants, or for the tenant that --tenant names.

    `spending` is null without --tenants.
    """

    as_of: str
    currency: str
    tenant: AskingOutput | None
    gpu_specs: tuple[GPUSpecOutput, ...]
    storage_specs: tuple[StorageSpecOutput, ...]
    apps: tuple[AppOutput, ...]
    spending: SpendingOutput | None


def gpu_output(offer: GPUOffer, ready: Ready, day: datetime.date, tenant: str = "") -> GPUSpecOutput:
    """Return the output of a GPUSpec in a cluster."""
    spec, own = offer.spec.model.spec, offer.reserved_for(tenant)
    return output_of(
        GPUSpecOutput,
        offer,
        name=offer.spec.model.name,
        display_name=spec.display_name,
        lifecycle=spec.lifecycle,
        model=spec.gpu.model,
        gpu_memory=format_size(spec.gpu.memory),
        gpu_memory_limit=None if (limit := gpu_memory_limit(spec)) is None else format_size(limit),
        gpus=float(physical_gpus(spec)),
        sharing=sharing_mode(spec),
        tenancy=spec.tenancy,
        capacity_type=spec.capacity_type,
        cpu=spec.cpu / 1000,
        memory=format_size(spec.memory),
        disk=format_size(spec.disk),
        price_per_hour=price_on(spec.prices, day).per_hour,
        next_price=_next_price_output(next_price(spec.prices, day)),
        units=offer.units + own.unit_count,
        free=offer.free_units + own.free_units,
        ready_at_once=ready_units(offer, ready, tenant),
        is_sold=is_sold(spec.prices, day),
    )


def ready_units(offer: GPUOffer, ready: Ready, tenant: str = "") -> int | None:
    """Return the number of ready units that are shared by all tenants or reserved for `tenant`.

    Ready units are units on a running node. Returns None if no reporter has reported the units.
    """
    ready_by_owner = ready.get((offer.cluster, offer.spec.model.name))
    return (
        None
        if ready_by_owner is None
        else sum(units for owner, units in ready_by_owner.items() if owner in ("", tenant))
    )


def storage_output(offer: StorageOffer, day: datetime.date) -> StorageSpecOutput:
    """Return the output of a StorageSpec in a cluster."""
    spec = offer.spec.model.spec
    return output_of(
        StorageSpecOutput,
        offer,
        name=offer.spec.model.name,
        display_name=spec.display_name,
        lifecycle=spec.lifecycle,
        access=spec.access,
        min_size=format_size(spec.size.min),
        max_size=format_size(spec.size.max),
        capacity=format_size(offer.cluster_storage.capacity),
        free=format_size(offer.free_bytes),
        price_per_gib_month=price_on(spec.prices, day).per_gib_month,
        next_price=_next_price_output(next_price(spec.prices, day)),
        snapshot_price_per_gib_month=snapshot_price(offer, day),
        is_sold=is_sold(spec.prices, day),
    )


def snapshot_price(offer: StorageOffer, day: datetime.date) -> Decimal | None:
    """Return the monthly price of a GiB of a snapshot; None if the cluster offers no snapshots of the StorageSpec."""
    prices = offer.spec.model.spec.snapshot_prices
    has_them = prices and offer.cluster_storage.volume_snapshot_class_name is not None
    return price_on(prices, day).per_gib_month if has_them else None


def app_output(offer: AppOffer) -> AppOutput:
    """Return the output of a version of an app."""
    return output_of(
        AppOutput,
        offer.version,
        name=offer.app.model.name,
        display_name=offer.app.model.spec.display_name,
        exposure=tuple(sorted({port.exposure for port in offer.version.container.ports})),
        min_memory=format_size(offer.version.container.shm_size) if offer.version.container.shm_size else None,
        barriers=offer.barriers,
        folders=tuple(AppFolderOutput(folder.path, folder.description) for folder in offer.version.folders),
    )


def asking_output(who: TenantAllowance) -> AskingOutput:
    """Return the output of a tenant's plan, quota and budget."""
    plan = who.plan.model.spec if who.plan is not None else None
    budget = None
    if plan is not None and plan.budget is not None and who.plan is not None:
        budget = BudgetOutput(plan.budget.per_month, who.cost, plan.budget.enforcement, who.plan.path)
    quota = list[QuotaOutput]()
    if (limits := who.limits) is not None:
        models = sorted(limits.gpus)
        quota += [
            QuotaOutput(model, limits.gpus[model], float(who.usage.gpus.get(model, 0)), who.quota_path("gpus", model))
            for model in models
        ]
        for field in ("instances", "storages", "snapshots", "storage"):
            quota.append(QuotaOutput(field, getattr(limits, field), getattr(who.usage, field), who.quota_path(field)))
    return output_of(
        AskingOutput,
        who,
        plan=who.plan.model.name if who.plan is not None else None,
        quota=tuple(quota),
        budget=budget,
        image_registries=tuple(plan.allow.image_registries) if plan is not None else (),
    )


def spending_output(spendings: Sequence[TenantSpending], day: datetime.date, commit: str) -> SpendingOutput:
    """Return the output of the tenants' costs."""
    tenants = tuple(
        output_of(
            TenantSpendingOutput,
            spending,
            budget_per_month=None if spending.budget is None else spending.budget.per_month,
        )
        for spending in spendings
    )
    left_out = sum(spending.unpriced_resources for spending in spendings)
    return SpendingOutput(tenants, total_cost(spendings), left_out, commit or None, day, HOURS_A_MONTH)


def _next_price_output(price: HourlyPrice | MonthlyPrice | None) -> PriceOutput | None:
    if price is None:
        return None
    amount = price.per_hour if isinstance(price, HourlyPrice) else price.per_gib_month
    return PriceOutput(price.start, amount)
