"""The offers of a catalog with their prices, and the costs of declared instances and storages at these prices."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import NamedTuple

from allotment.capacity.cordons import PlannedCordon, list_planned_cordons
from allotment.capacity.pricing import hourly_price, hourly_storage_price
from allotment.capacity.units import memory_per_device
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.tenant_facts import InstanceFacts, StorageFacts, TenantFacts
from allotment.declared.values import GIBI


class SpecOffer(NamedTuple):
    """A GPUSpec of the catalog.

    `memory` is the memory per GPU or slice in bytes. `price` is per unit and hour; it is None if the GPUSpec is not for
    sale.
    """

    model: str
    memory: int
    price: Decimal | None


class Offers(NamedTuple):
    """The offers of a catalog by name, with the prices of a day.

    The prices of storages and of snapshots are per GiB and hour; a price is None if the StorageSpec is not for sale. `domains`
    has the domain of each cluster. `cordons` are the cordons that have not ended.
    """

    gpu_specs: dict[str, SpecOffer]
    storage_prices: dict[str, Decimal | None]
    snapshot_prices: dict[str, Decimal | None]
    domains: dict[str, str]
    cordons: tuple[PlannedCordon, ...]

    @property
    def models_by_spec(self) -> dict[str, str]:
        """The GPU model of each GPUSpec."""
        return {name: offer.model for name, offer in self.gpu_specs.items()}


def read_offers(catalog: Catalog) -> Offers:
    """Return the offers of a catalog with the prices of the day `catalog.as_of`."""
    day: datetime.date = catalog.as_of
    storage_specs = catalog.platform.of_kind(StorageSpec)
    return Offers(
        {
            name: SpecOffer(
                declared.model.spec.gpu.model,
                memory_per_device(declared.model.spec),
                hourly_price(declared.model.spec, day),
            )
            for name, declared in catalog.platform.of_kind(GPUSpec).items()
        },
        {name: hourly_storage_price(declared.model.spec.prices, day) for name, declared in storage_specs.items()},
        {
            name: hourly_storage_price(declared.model.spec.snapshot_prices, day)
            for name, declared in storage_specs.items()
        },
        {
            name: declared.model.spec.domain
            for name, folder in catalog.clusters.items()
            if (declared := folder.get_singleton(Cluster)) is not None
        },
        list_planned_cordons(catalog),
    )


def count_held_units(facts: InstanceFacts, tenant: TenantFacts) -> int:
    """Return the units that an instance of a tenant holds."""
    return facts.replicas if facts.state == "Running" and tenant.is_active else 0


def declared_instance_cost(facts: InstanceFacts, tenant: TenantFacts | None, offers: Offers) -> Decimal | None:
    """Return the cost of an instance for an hour; zero without units. Returns None if the price is unknown."""
    units = count_held_units(facts, tenant) if tenant is not None else 0
    offer = offers.gpu_specs.get(facts.gpu_spec)
    if not units:
        return Decimal(0)
    return offer.price * units if offer is not None and offer.price is not None else None


def declared_snapshot_cost(storage: StorageFacts, offers: Offers) -> Decimal | None:
    """Return the cost of a snapshot of a storage for an hour; None if the price is unknown."""
    price = offers.snapshot_prices.get(storage.storage_spec)
    return price * storage.size / GIBI if price is not None else None


def declared_storage_cost(facts: StorageFacts, offers: Offers) -> Decimal | None:
    """Return the cost of a storage for an hour; None if the price is unknown."""
    price = offers.storage_prices.get(facts.storage_spec)
    return price * facts.size / GIBI if price is not None else None
