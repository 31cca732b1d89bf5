"""Finds the price of an offer on a day, and computes the monthly cost of a tenant's declarations.

An offer is a GPUSpec or a StorageSpec of the catalog. A month has 730 hours.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeVar

from allotment.capacity.units import instances_holding_units
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec, GPUSpecSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.storage_spec import MonthlyPrice, StorageSpec
from allotment.declared.tenant_resources import INSTANCE, SNAPSHOT, STORAGE, ResourceKind
from allotment.declared.values import GIBI

HOURS_A_MONTH = 730


class _DatedPrice(Protocol):
    @property
    def start(self) -> datetime.date: ...


P = TypeVar("P", bound=_DatedPrice)


def price_on(prices: Sequence[P], day: datetime.date) -> P:
    """Return the price on `day`: the last price that has started, or the first price if no price has started."""
    ordered = sorted(prices, key=lambda price: price.start)
    begun = [price for price in ordered if price.start <= day]
    return begun[-1] if begun else ordered[0]


def next_price(prices: Sequence[P], day: datetime.date) -> P | None:
    """Return the first price that starts after `day`; None if there is none."""
    later = [price for price in prices if price.start > day]
    return min(later, key=lambda price: price.start, default=None)


def is_sold(prices: Sequence[_DatedPrice], day: datetime.date) -> bool:
    """Return whether an offer is for sale on `day`, that is, whether its first price has started.

    Before its first price starts, an offer is not for sale, and costs are computed with the first price.
    """
    return any(price.start <= day for price in prices)


class Cost(NamedTuple):
    """The cost of a declared resource of a tenant.

    - `resource_kind` and `kind` are the kind of its declaration, `path` the path, and `offer` its GPUSpec or StorageSpec.
    - `quantity` is the number of units, or the bytes of a storage or snapshot.
    - `price` is the price of a unit per hour, or of a GiB per month. `per_month` is the cost of 730 hours. Both are in the
      currency of the platform. If no price of the offer has started, `has_price` is false, and both use the first price.
    """

    tenant: str
    resource_kind: ResourceKind
    name: str
    path: str
    cluster: str
    offer: str
    labels: Mapping[str, str]
    quantity: int
    price: Decimal
    has_price: bool

    @property
    def kind(self) -> str:
        """The name of the kind in declarations."""
        return self.resource_kind.kind.name

    @property
    def label(self) -> str:
        """The kind and the name of the resource."""
        return f"{self.resource_kind.word} {self.name}"

    @property
    def per_month(self) -> Decimal:
        """The cost of 730 hours."""
        if self.resource_kind == INSTANCE:
            return self.price * HOURS_A_MONTH * self.quantity
        return self.price * self.quantity / GIBI


class _Unpriced(NamedTuple):
    """A resource of a tenant before its price is known."""

    tenant: str
    resource_kind: ResourceKind
    declared: DeclarationFile[Declaration]
    cluster: str
    offer: str
    quantity: int

    def at(self, price: Decimal, is_offered: bool) -> Cost:
        """Return the cost at a price."""
        model = self.declared.model
        return Cost(
            tenant=self.tenant,
            resource_kind=self.resource_kind,
            name=model.name,
            path=self.declared.path,
            cluster=self.cluster,
            offer=self.offer,
            labels=model.metadata.labels,
            quantity=self.quantity,
            price=price,
            has_price=is_offered,
        )


def monthly_costs(catalog: Catalog, tenant: ScopeDeclarations) -> list[Cost]:
    """Return the monthly costs of a tenant's storages, snapshots and running instances, the largest first.

    The prices are those of the day `catalog.as_of`. An instance costs units × price per hour × 730. A storage costs
    GiB × price per GiB and month. A snapshot costs the GiB of its storage × price for snapshots per GiB and month.
    """
    specs, storage_specs = catalog.platform.of_kind(GPUSpec), catalog.platform.of_kind(StorageSpec)
    day, costs = catalog.as_of, []
    for instance in instances_holding_units(tenant):
        declared = instance.model.spec
        if (spec := specs.get(declared.gpu_spec)) is not None:
            hourly = spec.model.spec.prices
            unpriced = _Unpriced(
                tenant.name, INSTANCE, instance, declared.cluster, declared.gpu_spec, declared.replicas
            )
            costs.append(unpriced.at(price_on(hourly, day).per_hour, is_sold(hourly, day)))
    storages = tenant.of_kind(GPUStorage)
    for storage in storages.values():
        stored = storage.model.spec
        if (offer := storage_specs.get(stored.storage_spec)) is not None:
            monthly = offer.model.spec.prices
            unpriced = _Unpriced(tenant.name, STORAGE, storage, stored.cluster, stored.storage_spec, stored.size)
            costs.append(unpriced.at(price_on(monthly, day).per_gib_month, is_sold(monthly, day)))
    for snapshot in tenant.of_kind(GPUStorageSnapshot).values():
        source = storages.get(snapshot.model.spec.storage)
        offer = storage_specs.get(source.model.spec.storage_spec) if source else None
        if source is not None and offer is not None and offer.model.spec.snapshot_prices:
            stored, monthly = source.model.spec, offer.model.spec.snapshot_prices
            unpriced = _Unpriced(tenant.name, SNAPSHOT, snapshot, stored.cluster, stored.storage_spec, stored.size)
            costs.append(unpriced.at(price_on(monthly, day).per_gib_month, is_sold(monthly, day)))
    return sorted(costs, key=lambda cost: (-cost.per_month, cost.label))


def sum_by_cluster(costs: Iterable[Cost]) -> dict[str, Decimal]:
    """Return the monthly costs of the resources with a price, by cluster."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for cost in costs:
        sums[cost.cluster] += cost.per_month if cost.has_price else 0
    return dict(sums)


def hourly_price(spec: GPUSpecSpec, day: datetime.date) -> Decimal | None:
    """Return the price of a unit for an hour on a day; None if the GPUSpec is not for sale on this day."""
    return price_on(spec.prices, day).per_hour if is_sold(spec.prices, day) else None


def hourly_storage_price(prices: Sequence[MonthlyPrice], day: datetime.date) -> Decimal | None:
    """Return the price of a GiB for an hour on a day; None if no price has started on this day."""
    return price_on(prices, day).per_gib_month / HOURS_A_MONTH if is_sold(prices, day) else None


def scale_to_month(per_hour: Decimal | None) -> Decimal | None:
    """Return the cost in a month of 730 hours of a cost per hour; None if that is unknown."""
    return None if per_hour is None else per_hour * HOURS_A_MONTH


def format_hourly(amount: Decimal) -> str:
    """Return an amount per hour as text, rounded half up: with two decimal places, or with four if they are needed."""
    return str(amount.quantize(Decimal("0.0001"), rounding="ROUND_HALF_UP")).removesuffix("00")


def monthly_cost(catalog: Catalog, tenant: ScopeDeclarations) -> Decimal:
    """Return the monthly cost of a tenant's storages, snapshots and running instances."""
    return sum((cost.per_month for cost in monthly_costs(catalog, tenant)), Decimal(0))


def has_known_cost(catalog: Catalog, tenant: ScopeDeclarations) -> bool:
    """Return whether the cost of a tenant is known: each file is readable, and the GPUSpec of each instance and the
    StorageSpec of each storage exist."""
    return not count_uncosted_files(catalog, tenant)


def count_uncosted_files(catalog: Catalog, tenant: ScopeDeclarations) -> int:
    """Return the number of a tenant's files with an unknown cost.

    These are the unreadable files, the instances with an undeclared GPUSpec, and the storages with an undeclared
    StorageSpec.
    """
    specs, storage_specs = catalog.platform.of_kind(GPUSpec), catalog.platform.of_kind(StorageSpec)
    instances = [instance.model.spec.gpu_spec not in specs for instance in tenant.of_kind(GPUInstance).values()]
    storages = [storage.model.spec.storage_spec not in storage_specs for storage in tenant.of_kind(GPUStorage).values()]
    return len(tenant.invalid) + sum(instances) + sum(storages)


def format_signed(amount: Decimal) -> str:
    """Return an amount as text, with a plus sign if it is positive."""
    text = format_money(amount)
    return text if amount <= 0 else f"+{text}"


def price_days(catalog: Catalog, tenant: ScopeDeclarations) -> set[datetime.date]:
    """Return the start dates of all prices, past and future, of the offers that a tenant's resources use."""
    specs, storage_specs = catalog.platform.of_kind(GPUSpec), catalog.platform.of_kind(StorageSpec)
    used = {instance.model.spec.gpu_spec for instance in tenant.of_kind(GPUInstance).values()}
    stored = {storage.model.spec.storage_spec for storage in tenant.of_kind(GPUStorage).values()}
    lists: list[Sequence[_DatedPrice]] = [specs[name].model.spec.prices for name in used & specs.keys()]
    for name in stored & storage_specs.keys():
        spec = storage_specs[name].model.spec
        lists += [spec.prices, spec.snapshot_prices]
    return {price.start for prices in lists for price in prices}


def format_money(amount: Decimal) -> str:
    """Return an amount as text with two decimal places, rounded half up."""
    return str(amount.quantize(Decimal("0.01"), rounding="ROUND_HALF_UP"))
