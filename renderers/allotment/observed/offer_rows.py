"""Builds the rows of the lists of stocks and GPUSpecs from the catalog, the declared instances and the reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

import msgspec

from allotment.capacity.offers import Offers
from allotment.capacity.units import UnitClaim, compute_stock_usage, physical_gpus
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.tenant_facts import TenantFacts
from allotment.declared.values import format_size
from allotment.observed.status import ClusterStatus
from allotment.output_part import Part
from allotment.rules.limits import sharing_mode


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

    @property
    def label(self) -> str:
        """The cluster and the name."""
        return f"{self.cluster}/{self.name}"


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


def claim_declared_units(tenants: Iterable[TenantFacts]) -> list[UnitClaim]:
    """Return the units that the running instances of tenants claim."""
    return [
        UnitClaim(
            instance.cluster, instance.gpu_spec, tenant.tenant, instance.name, instance.replicas, instance.replicas
        )
        for tenant in tenants
        if tenant.is_active
        for instance in tenant.instances
        if instance.state == "Running"
    ]


def build_stock_offers(
    catalog: Catalog, tenants: Iterable[TenantFacts], offers: Offers, clusters: Iterable[ClusterStatus]
) -> list[StockOfferOutput]:
    """Return all declared stocks by cluster and name. `clusters` are the reported statuses of clusters."""
    ready = {(status.cluster, stock.name): stock.ready for status in clusters for stock in status.stocks}
    stocks = []
    for use in compute_stock_usage(catalog, claim_declared_units(tenants)):
        spec, offer = use.stock.model.spec, offers.gpu_specs.get(use.stock.model.spec.gpu_spec)
        stocks.append(
            StockOfferOutput(
                cluster=use.cluster,
                name=use.stock.model.name,
                gpu_spec=spec.gpu_spec,
                gpu_model=offer.model if offer is not None else None,
                gpu_memory=format_size(offer.memory) if offer is not None else None,
                tenant=spec.tenant,
                total=spec.count,
                held_units=use.held_units,
                free=use.free_units,
                ready=ready.get((use.cluster, use.stock.model.name)),
                price_per_hour=offer.price if offer is not None else None,
            )
        )
    return stocks


def build_spec_rows(catalog: Catalog, offers: Offers, stocks: Iterable[StockOfferOutput]) -> list[SpecRowOutput]:
    """Return a row for each GPUSpec and each cluster with a stock of it, by name and cluster."""
    by_place: dict[tuple[str, str], list[StockOfferOutput]] = {}
    for stock in stocks:
        by_place.setdefault((stock.gpu_spec, stock.cluster), []).append(stock)
    rows = []
    for name in sorted(offers.gpu_specs):
        clusters = sorted(cluster for spec, cluster in by_place if spec == name)
        rows += [_spec_row(catalog, name, cluster, offers, by_place) for cluster in clusters or [""]]
    return rows


def _spec_row(
    catalog: Catalog,
    name: str,
    cluster: str,
    offers: Offers,
    stocks_by_place: Mapping[tuple[str, str], list[StockOfferOutput]],
) -> SpecRowOutput:
    spec, offer = catalog.platform.of_kind(GPUSpec)[name].model.spec, offers.gpu_specs[name]
    stocks = stocks_by_place.get((name, cluster), [])
    shared = [stock for stock in stocks if not stock.tenant]
    return SpecRowOutput(
        name=name,
        cluster=cluster or None,
        gpu_model=offer.model,
        gpu_memory=format_size(offer.memory),
        gpus=float(physical_gpus(spec)),
        cpu=spec.cpu / 1000,
        memory=format_size(spec.memory),
        disk=format_size(spec.disk),
        sharing=sharing_mode(spec),
        lifecycle=spec.lifecycle,
        total=sum(stock.total for stock in shared),
        held_units=sum(stock.held_units for stock in shared),
        free=sum(stock.free for stock in shared),
        reserved=sum(stock.total for stock in stocks if stock.tenant),
        price_per_hour=offer.price,
    )
