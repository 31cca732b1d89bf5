"""Reads the facts that all pages of the portal share, from the catalog, the tenants' facts and the clusters' reports."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping

from allotment.capacity.pricing import hourly_price, is_sold, next_price, price_on
from allotment.capacity.units import memory_per_device, physical_gpus
from allotment.declared.inventory import Catalog
from allotment.declared.kinds.app import App
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.gpu_spec import HourlyPrice
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.storage_spec import MonthlyPrice
from allotment.declared.tenant_facts import TenantFacts
from allotment.declared.values import format_cpu, format_size
from allotment.observed.offer_rows import claim_declared_units
from allotment.observed.status import ClusterStatus
from allotment.portal.pages.forge_links import ForgeLinks
from allotment.portal.pages.site_facts import (
    AppEntry,
    AppVersionEntry,
    ClusterEntry,
    GpuSpecEntry,
    SiteFacts,
    StorageSpecEntry,
)
from allotment.rules.availability import GPUOffer, StorageOffer, list_offers
from allotment.rules.limits import find_callback_host, sharing_mode
from allotment.rules.tally import StorageUsage
from allotment.services.status_view.status_view import StatusView

TITLE = "GPU cloud"  # of a platform without a displayed name
_SOLD_LIFECYCLES = ("Active", "Deprecated")


def read_site_facts(
    view: StatusView, platform: Platform, catalog: Catalog, facts: Iterable[TenantFacts], now: datetime.datetime
) -> SiteFacts:
    """Return the facts that all pages share. `facts` are those of all tenants: their resources take units and sizes."""
    tenants = list(facts)
    storages = [
        StorageUsage(storage.cluster, storage.storage_spec, tenant.tenant, storage.name, storage.size)
        for tenant in tenants
        for storage in tenant.storages
    ]
    offers = list_offers(catalog, claim_declared_units(tenants), storages)
    spec, currency, day = platform.spec, platform.spec.billing.currency, catalog.as_of
    return SiteFacts(
        title=spec.display_name or TITLE,
        description=spec.description or "",
        currency=currency,
        day=day,
        commit=view.declared_commit.source.commit,
        forge=ForgeLinks.of_repository(spec.git.forge, spec.git.url, spec.git.branch),
        clusters=tuple(_list_clusters(catalog, view.reported_status.clusters, view.reported_status.troubles, now)),
        gpu_specs=tuple(
            _describe_gpu_offer(offer, currency, day)
            for offer in sorted(offers.gpu_offers, key=lambda offer: (offer.spec.model.name, offer.cluster))
            if offer.units and offer.spec.model.spec.lifecycle in _SOLD_LIFECYCLES
        ),
        storage_specs=tuple(
            _describe_storage_offer(offer, day)
            for offer in sorted(offers.storage_offers, key=lambda offer: (offer.spec.model.name, offer.cluster))
            if offer.spec.model.spec.lifecycle in _SOLD_LIFECYCLES
        ),
        apps=tuple(_list_apps(catalog)),
    )


def list_reserved(catalog: Catalog, currency: str, facts: Iterable[TenantFacts]) -> dict[str, list[GpuSpecEntry]]:
    """Return the GPUSpecs with units that are reserved for each tenant. An entry counts only these units."""
    offers: dict[str, list[GpuSpecEntry]] = {}
    for offer in list_offers(catalog, claim_declared_units(facts), ()).gpu_offers:
        if offer.spec.model.spec.lifecycle in _SOLD_LIFECYCLES:
            entry = _describe_gpu_offer(offer, currency, catalog.as_of)
            for each in offer.reserved:
                reserved = entry._replace(free=each.free_units, total=each.unit_count)
                offers.setdefault(each.tenant, []).append(reserved)
    return offers


def _describe_gpu_offer(offer: GPUOffer, currency: str, day: datetime.date) -> GpuSpecEntry:
    spec = offer.spec.model.spec
    later = next_price(spec.prices, day)
    return GpuSpecEntry(
        cluster=offer.cluster,
        name=offer.spec.model.name,
        title=spec.display_name or offer.spec.model.name,
        model=spec.gpu.model,
        gpus=physical_gpus(spec),
        gpu_memory=format_size(memory_per_device(spec)),
        sharing=sharing_mode(spec),
        cpu=format_cpu(spec.cpu),
        memory=spec.memory,
        disk=format_size(spec.disk),
        lifecycle=spec.lifecycle,
        price=hourly_price(spec, day),
        later_price=f"{later.per_hour} {currency} from {later.start}" if later is not None else "",
        changes_this_month=_starts_this_month(later, day),
        free=offer.free_units,
        total=offer.units,
    )


def _describe_storage_offer(offer: StorageOffer, day: datetime.date) -> StorageSpecEntry:
    spec = offer.spec.model.spec
    later = next_price(spec.prices, day)
    return StorageSpecEntry(
        cluster=offer.cluster,
        name=offer.spec.model.name,
        access=spec.access,
        min_size=spec.size.min,
        max_size=spec.size.max,
        free_bytes=offer.free_bytes,
        lifecycle=spec.lifecycle,
        price=price_on(spec.prices, day).per_gib_month if is_sold(spec.prices, day) else None,
        later_price=f"{later.per_gib_month} from {later.start}" if later is not None else "",
        changes_this_month=_starts_this_month(later, day),
    )


def _starts_this_month(later: HourlyPrice | MonthlyPrice | None, day: datetime.date) -> bool:
    """Return whether the next price starts in the month of a day."""
    return later is not None and (later.start.year, later.start.month) == (day.year, day.month)


def _list_apps(catalog: Catalog) -> Iterator[AppEntry]:
    for name, app in catalog.platform.of_kind(App).items():
        spec = app.model.spec
        yield AppEntry(
            name=name,
            title=spec.display_name or name,
            description=spec.description or "",
            versions=tuple(
                AppVersionEntry(
                    version=version.version,
                    lifecycle=version.lifecycle,
                    replaced_by=version.replaced_by or "",
                    exposures=tuple(sorted({port.exposure for port in version.container.ports})),
                    shm_size=version.container.shm_size or 0,
                    folders=tuple(sorted(version.folders, key=lambda folder: folder.optional)),
                    image=version.container.image,
                )
                for version in reversed(spec.versions)
            ),
        )


def _list_clusters(
    catalog: Catalog, reports: Iterable[ClusterStatus], troubles: Mapping[str, str], now: datetime.datetime
) -> Iterator[ClusterEntry]:
    by_name = {report.cluster: report for report in reports}
    for name, folder in catalog.clusters.items():
        declared, report = folder.get_singleton(Cluster), by_name.get(name)
        spec = declared.model.spec if declared is not None else None
        yield ClusterEntry(
            name=name,
            title=(spec.display_name if spec is not None else None) or name,
            description=(spec.description if spec is not None else None) or "",
            lifecycle=spec.lifecycle if spec is not None else "",
            observed_at=report.observed_at if report is not None else "",
            is_stale=report is None or report.is_stale(now),
            trouble=troubles.get(name, ""),
            has_ssh=spec is not None and spec.ssh is not None,
            has_public_ports=find_callback_host(catalog, name) is None,
        )
