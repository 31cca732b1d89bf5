"""Joins the declared facts, the price and the reported state of instances and storages into the rows of lists."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple, TypeVar

from allotment.capacity.pricing import hourly_price, hourly_storage_price
from allotment.capacity.units import memory_per_device
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.tenant_facts import InstanceFacts, StorageFacts, TenantFacts
from allotment.declared.tenant_resources import INSTANCE, STORAGE
from allotment.declared.values import GIBI
from allotment.observed.resource_status import ResourceStatus
from allotment.observed.status import Instance, Storage

F = TypeVar("F")


class PullRequestRef(NamedTuple):
    """An open pull request that declares a resource, or changes or removes it. `change` is add, change or remove."""

    number: int
    url: str
    change: str


class SpecOffer(NamedTuple):
    """A GPUSpec of the catalog.

    `memory` is the memory per GPU or slice in bytes. `price` is per unit and hour; it is None if the GPUSpec is not for
    sale.
    """

    model: str
    memory: int
    price: Decimal | None


class InstanceRow(NamedTuple):
    """An instance in a list.

    - `state` is the declared state; it is empty if the instance is not declared, or if its file is invalid.
    - `reported_state` is the state that people see, and `reason` its reason as a fixed word; `message` explains it.
    - `replicas` are the declared replicas, `units` the units that the instance holds, and `ready` its ready replicas; it
      is None if the cluster reports nothing.
    - `gpu_memory` is in bytes; it is 0 if the GPUSpec is not declared.
    - `since` is the time of the last change of the reported state; it is empty if it is unknown.
    - `cost_per_hour` is None if the cost is unknown.
    - `pull_request` is set if only an open pull request has this version of the instance.
    """

    tenant: str
    name: str
    cluster: str
    state: str
    reported_state: str
    reason: str
    message: str
    is_as_declared: bool
    replicas: int
    units: int
    ready: int | None
    gpu_spec: str
    gpu_model: str
    gpu_memory: int
    app: str
    url: str
    since: str
    cost_per_hour: Decimal | None
    storages: tuple[str, ...]
    labels: dict[str, str]
    path: str
    pull_request: PullRequestRef | None = None

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"


class StorageRow(NamedTuple):
    """A storage in a list.

    - `reported_state`, `reason`, `message`, `since`, `cost_per_hour` and `pull_request` are as in `InstanceRow`.
    - `size` is the declared size in bytes; it is 0 if the storage is not declared. `capacity` is the reported size.
    - `source` is the kind of source that fills the storage. `preparation` is the state of the last attempt, and
      `attempt` its number; they are empty and 0 if the cluster reports no preparation.
    """

    tenant: str
    name: str
    cluster: str
    reported_state: str
    reason: str
    message: str
    is_as_declared: bool
    storage_spec: str
    size: int
    capacity: str
    source: str
    preparation: str
    attempt: int
    mounted_by: tuple[str, ...]
    url: str
    since: str
    cost_per_hour: Decimal | None
    labels: dict[str, str]
    path: str
    pull_request: PullRequestRef | None = None

    @property
    def label(self) -> str:
        """The tenant and the name."""
        return f"{self.tenant}/{self.name}"


class Offers(NamedTuple):
    """The offers of a catalog by name, with the prices of a day.

    The prices of storages and of snapshots are per GiB and hour; a price is None if the StorageSpec is not for sale.
    """

    gpu_specs: dict[str, SpecOffer]
    storage_prices: dict[str, Decimal | None]
    snapshot_prices: dict[str, Decimal | None]

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
    )


def build_instance_rows(
    statuses: Iterable[ResourceStatus], tenants: Mapping[str, TenantFacts], offers: Offers
) -> list[InstanceRow]:
    """Return a row for each instance among `statuses`, in the given order."""
    facts = {(each.tenant, each.name): each for tenant in tenants.values() for each in tenant.instances}
    return [
        instance_row(status, _declared_facts(facts, status), tenants.get(status.resource.tenant), offers)
        for status in statuses
        if status.resource.kind == INSTANCE.word
    ]


def build_storage_rows(
    statuses: Iterable[ResourceStatus], tenants: Mapping[str, TenantFacts], offers: Offers
) -> list[StorageRow]:
    """Return a row for each storage among `statuses`, in the given order."""
    facts = {(each.tenant, each.name): each for tenant in tenants.values() for each in tenant.storages}
    return [
        storage_row(status, _declared_facts(facts, status), offers)
        for status in statuses
        if status.resource.kind == STORAGE.word
    ]


def _declared_facts(facts: Mapping[tuple[str, str], F], status: ResourceStatus) -> F | None:
    return facts.get((status.resource.tenant, status.resource.name)) if status.resource.blob else None


def instance_row(
    status: ResourceStatus, facts: InstanceFacts | None, tenant: TenantFacts | None, offers: Offers
) -> InstanceRow:
    """Return the row of an instance. `facts` is None if the instance is not declared or its file is invalid."""
    observed = status.observed if isinstance(status.observed, Instance) else None
    spec = facts.gpu_spec if facts is not None else status.gpu_spec
    offer = offers.gpu_specs.get(spec)
    units = count_held_units(facts, tenant) if facts is not None and tenant is not None else 0
    return InstanceRow(
        tenant=status.resource.tenant,
        name=status.resource.name,
        cluster=status.resource.cluster,
        state=facts.state if facts is not None else "",
        reported_state=status.displayed_state,
        reason=status.reason,
        message=status.explanation,
        is_as_declared=status.is_as_declared,
        replicas=facts.replicas if facts is not None else 0,
        units=units,
        ready=observed.ready_replicas if observed is not None else None,
        gpu_spec=spec,
        gpu_model=offer.model if offer is not None else "",
        gpu_memory=offer.memory if offer is not None else 0,
        app=facts.app if facts is not None else "",
        url=observed.url if observed is not None else "",
        since=observed.since if observed is not None else "",
        cost_per_hour=declared_instance_cost(facts, tenant, offers) if facts is not None else None,
        storages=facts.storages if facts is not None else (),
        labels=facts.labels if facts is not None else {},
        path=status.path,
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


def declared_storage_cost(facts: StorageFacts, offers: Offers) -> Decimal | None:
    """Return the cost of a storage for an hour; None if the price is unknown."""
    price = offers.storage_prices.get(facts.storage_spec)
    return price * facts.size / GIBI if price is not None else None


def storage_row(status: ResourceStatus, facts: StorageFacts | None, offers: Offers) -> StorageRow:
    """Return the row of a storage. `facts` is None if the storage is not declared or its file is invalid."""
    observed = status.observed if isinstance(status.observed, Storage) else None
    preparation = observed.prepare if observed is not None else None
    return StorageRow(
        tenant=status.resource.tenant,
        name=status.resource.name,
        cluster=status.resource.cluster,
        reported_state=status.displayed_state,
        reason=status.reason,
        message=status.explanation,
        is_as_declared=status.is_as_declared,
        storage_spec=facts.storage_spec if facts is not None else "",
        size=facts.size if facts is not None else 0,
        capacity=observed.capacity if observed is not None else "",
        source=facts.source if facts is not None else "",
        preparation=preparation.state if preparation is not None else "",
        attempt=preparation.attempt if preparation is not None else 0,
        mounted_by=facts.mounted_by if facts is not None else (),
        url=observed.url if observed is not None else "",
        since=observed.since if observed is not None else "",
        cost_per_hour=declared_storage_cost(facts, offers) if facts is not None else None,
        labels=facts.labels if facts is not None else {},
        path=status.path,
    )
