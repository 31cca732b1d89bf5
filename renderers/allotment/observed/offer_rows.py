"""Builds the rows of the lists of stocks and GPUSpecs from the catalog, the declared instances and the reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from allotment.capacity.units import UnitClaim, compute_stock_usage, physical_gpus
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.resource_rows import Offers
from allotment.observed.status import ClusterStatus
from allotment.rules.limits import sharing_mode


class StockOffer(NamedTuple):
    """A stock of a cluster with its units and the price of a unit.

    `tenant` is the tenant that the stock is reserved for; it is empty for a shared stock. `ready` counts the running
    placeholders; it is None if the cluster has not reported the stock. `gpu_memory` is in bytes per GPU or slice; it is 0 if
    the GPUSpec is not declared. `price_per_hour` is None if the GPUSpec is not for sale.
    """

    cluster: str
    name: str
    gpu_spec: str
    gpu_model: str
    gpu_memory: int
    tenant: str
    total: int
    held_units: int
    free: int
    ready: int | None
    price_per_hour: Decimal | None

    @property
    def label(self) -> str:
        """The cluster and the name."""
        return f"{self.cluster}/{self.name}"


class SpecRow(NamedTuple):
    """A GPUSpec in a cluster that has a stock of it; `cluster` is empty if no cluster has a stock.

    `gpus` is the number of physical GPUs of a unit. `cpu` is in millicores, `memory` and `disk` are in bytes. `total`, `held_units`
    and `free` count the units of shared stocks, and `reserved` the units of stocks that are reserved for single tenants.
    """

    name: str
    cluster: str
    gpu_model: str
    gpu_memory: int
    gpus: float
    cpu: int
    memory: int
    disk: int
    sharing: str
    lifecycle: str
    total: int
    held_units: int
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
) -> list[StockOffer]:
    """Return all declared stocks by cluster and name. `clusters` are the reported statuses of clusters."""
    ready = {(status.cluster, stock.name): stock.ready for status in clusters for stock in status.stocks}
    stocks = []
    for use in compute_stock_usage(catalog, claim_declared_units(tenants)):
        spec, offer = use.stock.model.spec, offers.gpu_specs.get(use.stock.model.spec.gpu_spec)
        stocks.append(
            StockOffer(
                cluster=use.cluster,
                name=use.stock.model.name,
                gpu_spec=spec.gpu_spec,
                gpu_model=offer.model if offer is not None else "",
                gpu_memory=offer.memory if offer is not None else 0,
                tenant=spec.tenant or "",
                total=spec.count,
                held_units=use.held_units,
                free=use.free_units,
                ready=ready.get((use.cluster, use.stock.model.name)),
                price_per_hour=offer.price if offer is not None else None,
            )
        )
    return stocks


def build_spec_rows(catalog: Catalog, offers: Offers, stocks: Iterable[StockOffer]) -> list[SpecRow]:
    """Return a row for each GPUSpec and each cluster with a stock of it, by name and cluster."""
    by_place: dict[tuple[str, str], list[StockOffer]] = {}
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
    stocks_by_place: Mapping[tuple[str, str], list[StockOffer]],
) -> SpecRow:
    spec, offer = catalog.platform.of_kind(GPUSpec)[name].model.spec, offers.gpu_specs[name]
    stocks = stocks_by_place.get((name, cluster), [])
    shared = [stock for stock in stocks if not stock.tenant]
    return SpecRow(
        name=name,
        cluster=cluster,
        gpu_model=offer.model,
        gpu_memory=offer.memory,
        gpus=float(physical_gpus(spec)),
        cpu=spec.cpu,
        memory=spec.memory,
        disk=spec.disk,
        sharing=sharing_mode(spec),
        lifecycle=spec.lifecycle,
        total=sum(stock.total for stock in shared),
        held_units=sum(stock.held_units for stock in shared),
        free=sum(stock.free for stock in shared),
        reserved=sum(stock.total for stock in stocks if stock.tenant),
        price_per_hour=offer.price,
    )
