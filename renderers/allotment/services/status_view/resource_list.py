"""Reads the listing of instances, storages, tenants and offers from a clone, or from a cache if no branch has moved."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from allotment.adapters.declaration_source import Source
from allotment.adapters.file_cache import FileCache, program_key
from allotment.branches.declarations_clone import DeclarationsClone
from allotment.branches.platform_settings import read_platform
from allotment.capacity.offers import Offers, read_offers
from allotment.declared.kinds.node_pool import NodePool
from allotment.declared.tenant_facts import TenantFacts
from allotment.observed.node_rows import NodeRowOutput, build_node_rows
from allotment.observed.offer_rows import SpecRowOutput, StockOfferOutput, build_spec_rows, build_stock_offers
from allotment.observed.resource_rows import (
    InstanceRowOutput,
    StorageRowOutput,
    build_instance_rows,
    build_storage_rows,
)
from allotment.observed.status import ClusterStatus
from allotment.problems import AllotmentError
from allotment.services.check.check_options import OpenCache
from allotment.services.status_view.clone_refs import CloneRefs

_KEY = "listing"  # the only value in the cache


class ResourceListing(NamedTuple):
    """All declared and reported instances and storages, the declared tenants and node pools, and the offers of the catalog.

    `reports` are the clusters' last reports without their stocks and cold starts. Whether a report is stale depends on the
    time of the output. `troubles` maps a cluster to the fault of its status branch.
    """

    currency: str
    clusters: tuple[str, ...]
    offers: Offers
    tenants: dict[str, TenantFacts]
    instances: tuple[InstanceRowOutput, ...]
    storages: tuple[StorageRowOutput, ...]
    stocks: tuple[StockOfferOutput, ...]
    specs: tuple[SpecRowOutput, ...]
    pools: tuple[str, ...]
    nodes: tuple[NodeRowOutput, ...]
    reports: tuple[ClusterStatus, ...]
    troubles: dict[str, str]


class ListingReader:
    """Reads the listing of one clone. `choose_day` returns the day of the prices for a source.

    `open_listing` and `open_facts` open the caches of the listing and of the tenants' facts.
    """

    def __init__(
        self,
        clone: DeclarationsClone,
        choose_day: Callable[[Source], datetime.date],
        open_listing: OpenCache | None = None,
        open_facts: OpenCache | None = None,
    ) -> None:
        self._clone = clone
        self._choose_day = choose_day
        self._open_listing, self._open_facts = open_listing, open_facts
        self.refs = CloneRefs(clone)

    def read(self) -> ResourceListing:
        """Return the listing. Raises OperationRefused if a remote doesn't answer."""
        day = self._choose_day(self.refs.declared_commit.source)
        cache = FileCache.disabled()
        if self._open_listing is not None:
            cache = self._open_listing(self._describe_inputs(day), ResourceListing)
        listing: ResourceListing | None = cache.values.get(_KEY)
        if listing is None:
            listing = self._read_uncached(day)
            cache.put(_KEY, listing)
            cache.save()
        return listing

    def _describe_inputs(self, day: datetime.date) -> str:
        """Return the key of the cache: the program, the day, the declared commit, and the targets of all refs."""
        tips = sorted(self.refs.read_refs().items())
        inputs = [str(day), self.refs.declared_commit.source.commit, self.refs.branch_urls, tips]
        return f"{program_key()} {json.dumps(inputs)}"

    def _read_uncached(self, day: datetime.date) -> ResourceListing:
        # A list from the cache needs none of these modules, which take 0.1 s to import.
        from allotment.services.check.catalog_check import check_catalog
        from allotment.services.status_view.capacity_reader import read_capacity_usages
        from allotment.services.status_view.status_view import StatusView
        from allotment.services.status_view.tenant_facts_reader import read_tenant_facts

        view = StatusView(self._clone)
        source = view.declared_commit.source
        platform = read_platform(source)
        if platform is None:
            raise AllotmentError("platform/platform.yaml can't be read: `allot validate` shows the reason")
        tenants = read_tenant_facts(source, view.tenants, self._open_facts)
        catalog = check_catalog(source, day).catalog
        offers = read_offers(catalog)
        stocks = build_stock_offers(catalog, tenants.values(), offers, view.reported_status.clusters)
        instances = tuple(build_instance_rows(view.rows, tenants, offers))
        capacities = read_capacity_usages(self._clone.repository, view.reported_status.commits)
        return ResourceListing(
            currency=platform.spec.billing.currency,
            clusters=tuple(sorted(view.reporter_keys)),
            offers=offers,
            tenants=tenants,
            instances=instances,
            storages=tuple(build_storage_rows(view.rows, tenants, offers)),
            stocks=tuple(stocks),
            specs=tuple(build_spec_rows(catalog, offers, stocks)),
            pools=tuple(sorted({pool for cluster in catalog.clusters.values() for pool in cluster.of_kind(NodePool)})),
            nodes=tuple(build_node_rows(capacities, instances, offers.cordons)),
            reports=tuple(
                msgspec.structs.replace(status, stocks=(), cold_starts=()) for status in view.reported_status.clusters
            ),
            troubles=dict(view.reported_status.troubles),
        )
