"""The offers of the catalog, and the reasons why a tenant can't have some of them now.

A tenant can see these reasons before it declares a resource. Because no declaration exists yet, this module yields
instances of `Barrier` instead of findings. A Barrier has a reason in a few words, and the path of the file that causes
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import msgspec

from allotment.capacity.pricing import HOURS_A_MONTH, format_money, monthly_cost, price_on
from allotment.capacity.units import UnitClaim, UnitUsage, compute_unit_usage, physical_gpus
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.app import App, AppVersion
from allotment.declared.kinds.cluster import Cluster, ClusterStorage
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.members import Members
from allotment.declared.kinds.plan import Plan, SelfService
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.layout import Scope, path_of
from allotment.declared.values import GIBI, format_decimal, format_size
from allotment.output_part import Part
from allotment.rules.limits import has_no_users, plan_of, sharing_mode
from allotment.rules.quota import QuotaLimits, QuotaUsage, compute_quota_usage, limits_of
from allotment.rules.tally import StorageUsage


class Barrier(Part, frozen=True):
    """The reason why a tenant can't have an offer, and the file that causes it."""

    message: str = msgspec.field(name="reason")
    path: str


class ReservedUnits(Part, frozen=True):
    """The number of units of a GPUSpec that are reserved for a tenant, and how many of these units are free."""

    tenant: str
    unit_count: int = msgspec.field(name="units")
    free_units: int = msgspec.field(name="free")


class GPUOffer(NamedTuple):
    """A GPUSpec in a cluster.

    `units` is the number of shared units, which any tenant may hold, and `free_units` of these units are free.
    `reserved` has the units that are reserved for single tenants.
    """

    cluster: str
    spec: DeclarationFile[GPUSpec]
    units: int
    free_units: int
    reserved: tuple[ReservedUnits, ...]
    barriers: tuple[Barrier, ...] = ()

    def reserved_for(self, tenant: str) -> ReservedUnits:
        """Return the units that are reserved for a tenant."""
        return next(
            (reservation for reservation in self.reserved if reservation.tenant == tenant), ReservedUnits(tenant, 0, 0)
        )


class StorageOffer(NamedTuple):
    """A StorageSpec in a cluster, and the free bytes of its capacity there."""

    cluster: str
    spec: DeclarationFile[StorageSpec]
    cluster_storage: ClusterStorage
    free_bytes: int
    barriers: tuple[Barrier, ...] = ()


class AppOffer(NamedTuple):
    """A version of an app."""

    app: DeclarationFile[App]
    version: AppVersion
    barriers: tuple[Barrier, ...] = ()


class AvailableOffers(NamedTuple):
    """The offers, by type."""

    gpu_offers: list[GPUOffer]
    storage_offers: list[StorageOffer]
    app_offers: list[AppOffer]


def list_offers(
    catalog: Catalog,
    claims: Iterable[UnitClaim],
    storages: Iterable[StorageUsage],
    tenant: ScopeDeclarations | None = None,
    cluster: str | None = None,
) -> AvailableOffers:
    """Return the offers in a cluster, or in all clusters if `cluster` is None.

    An offer has the units or bytes that the `claims` and `storages` of all tenants leave free. If `tenant` is given,
    the offer also has the barriers for this tenant.
    """
    who = TenantAllowance(catalog, tenant) if tenant is not None else None
    held_storages = list(storages)
    here = [
        unit_usage
        for unit_usage in compute_unit_usage(catalog, claims)
        if unit_usage.stocks.all_stocks and cluster in (None, unit_usage.cluster)
    ]
    gpus = [offer for unit_usage in here if (offer := _gpu_offer(catalog, unit_usage, who)) is not None]
    return AvailableOffers(
        gpus,
        [
            storage_offer
            for storage_offer in _storage_offers(catalog, held_storages, who)
            if cluster in (None, storage_offer.cluster)
        ],
        [
            AppOffer(app, version, tuple(who.app_barriers(app, version, gpus)) if who else ())
            for app in catalog.platform.of_kind(App).values()
            for version in app.model.spec.versions
        ],
    )


def _gpu_offer(catalog: Catalog, unit_usage: UnitUsage, who: TenantAllowance | None) -> GPUOffer | None:
    spec = catalog.platform.of_kind(GPUSpec).get(unit_usage.gpu_spec)
    if spec is None:
        return None
    shared = unit_usage.stocks.shared_units
    reserved = tuple(
        ReservedUnits(owner, units, max(0, units - unit_usage.held_by_tenant.get(owner, 0)))
        for owner in sorted(unit_usage.stocks.reserved)
        if (units := unit_usage.stocks.reserved_units(owner)) or unit_usage.stocks.reserved[owner]
    )
    offer = GPUOffer(unit_usage.cluster, spec, shared, max(0, shared - unit_usage.total_shared_use), reserved)
    return offer._replace(barriers=tuple(who.gpu_barriers(offer, unit_usage))) if who else offer


def _storage_offers(
    catalog: Catalog, storages: list[StorageUsage], who: TenantAllowance | None
) -> Iterator[StorageOffer]:
    specs = catalog.platform.of_kind(StorageSpec)
    for name, cluster in catalog.clusters.items():
        declared = cluster.get_singleton(Cluster)
        for entry in declared.model.spec.storages if declared is not None else ():
            spec = specs.get(entry.storage_spec)
            if spec is not None:
                here = (name, entry.storage_spec)
                used_bytes = sum(
                    held_storage.size
                    for held_storage in storages
                    if (held_storage.cluster, held_storage.storage_spec) == here
                )
                offer = StorageOffer(name, spec, entry, max(0, entry.capacity - used_bytes))
                yield offer._replace(barriers=tuple(who.storage_barriers(offer))) if who else offer


class TenantAllowance:
    """The tariff plan, quota, budget and usage of a tenant, and the barriers that result from them."""

    def __init__(self, catalog: Catalog, tenant: ScopeDeclarations) -> None:
        self.catalog, self.declarations = catalog, tenant
        self.name = tenant.name
        self.plan: DeclarationFile[Plan] | None = plan_of(catalog, tenant)
        self.limits: QuotaLimits | None = limits_of(catalog, tenant)
        self.usage: QuotaUsage = compute_quota_usage(catalog, tenant)
        self.path = path_of(Tenant.__name__, Scope("tenant", tenant.name), tenant.name)

    @cached_property
    def cost(self) -> Decimal:
        """The monthly cost of the tenant's declarations."""
        return monthly_cost(self.catalog, self.declarations)

    @property
    def lifecycle(self) -> str:
        """The tenant's lifecycle; empty if its file can't be read."""
        declared = self.declarations.get_singleton(Tenant)
        return declared.model.spec.lifecycle if declared is not None else ""

    @property
    def self_service(self) -> SelfService | None:
        """The policy by which changes merge by themselves; None if the Platform or the tenant's tariff plan has none."""
        platform = self.catalog.platform.get_singleton(Platform)
        is_enabled = platform is not None and platform.model.spec.self_service == "Enabled"
        return self.plan.model.spec.self_service if is_enabled and self.plan is not None else None

    def quota_path(self, field: str, model: str = "") -> str:
        """Return the file that sets a field of the tenant's quota: the file of the tenant, or of its tariff plan.

        For the field `gpus`, `model` is the GPU model.
        """
        declared = self.declarations.get_singleton(Tenant)
        own = declared.model.spec.quota if declared is not None else None
        is_own = own is not None and (model in own.gpus if model else getattr(own, field) is not None)
        return self.path if is_own or self.plan is None else self.plan.path

    def gpu_barriers(self, offer: GPUOffer, usage: UnitUsage) -> Iterator[Barrier]:
        """Yield the reasons why the tenant can't have one more unit of the offered GPUSpec."""
        yield from self._lifecycle_barriers(offer.cluster, offer.spec, offer.spec.model.spec.lifecycle)
        yield from self._stock_barriers(offer, usage)
        if self.plan is None or self.limits is None:
            return
        spec, allowed = offer.spec.model.spec, self.plan.model.spec.allow.sharing
        way = sharing_mode(spec)
        if way not in allowed:
            message = f"plan {self.plan.model.name} doesn't allow {way}, only {', '.join(allowed) or 'nothing'}"
            yield Barrier(message, self.plan.path)
        model, more = spec.gpu.model, physical_gpus(spec)
        limit, used = self.limits.gpus.get(model, 0), self.usage.gpus.get(model, Fraction(0))
        if not limit:
            yield Barrier(f"no {model} is in its quota", self.quota_path("gpus", model))
        elif used + more > limit:
            remaining = format_decimal(max(limit - used, Fraction(0)))
            message = f"it takes {format_decimal(more)} {model}, and {remaining} of {limit} is left"
            yield Barrier(message, self.quota_path("gpus", model))
        yield from self._count_barriers(self.usage.instances, self.limits.instances, "instances")
        price = price_on(spec.prices, self.catalog.as_of).per_hour
        yield from self._budget_barriers(price * HOURS_A_MONTH)

    def _stock_barriers(self, offer: GPUOffer, usage: UnitUsage) -> Iterator[Barrier]:
        own = offer.reserved_for(self.name)
        paths = [stock.path for stock in usage.stocks.all_stocks if stock.model.spec.tenant in (None, self.name)]
        if not paths:
            owners = ", ".join(each.tenant for each in offer.reserved)
            yield Barrier(f"held for {owners}", usage.stocks.all_stocks[0].path)
        elif not offer.free_units + own.free_units:
            units = offer.units + own.unit_count
            yield Barrier(f"none of {units} is free" if units else "its stock is 0", paths[0])

    def storage_barriers(self, offer: StorageOffer) -> Iterator[Barrier]:
        """Yield the reasons why the tenant can't have one more storage of the offered StorageSpec.

        The method assumes that the storage has the smallest size that the StorageSpec allows.
        """
        spec = offer.spec.model.spec
        least = spec.size.min
        yield from self._lifecycle_barriers(offer.cluster, offer.spec, spec.lifecycle)
        if offer.free_bytes < least:
            message = f"{format_size(offer.free_bytes)} of {format_size(offer.cluster_storage.capacity)} is free, the smallest takes {format_size(least)}"
            yield Barrier(message, path_of(Cluster.__name__, Scope("cluster", offer.cluster), offer.cluster))
        if self.limits is None:
            return
        yield from self._count_barriers(self.usage.storages, self.limits.storages, "storages")
        remaining = max(0, self.limits.storage - self.usage.storage)
        if remaining < least:
            message = f"{format_size(remaining)} of {format_size(self.limits.storage)} is left, the smallest takes {format_size(least)}"
            yield Barrier(message, self.quota_path("storage"))
        price = price_on(spec.prices, self.catalog.as_of).per_gib_month
        yield from self._budget_barriers(price * least / GIBI)

    def app_barriers(
        self, app: DeclarationFile[App], version: AppVersion, gpus: Iterable[GPUOffer]
    ) -> Iterator[Barrier]:
        """Yield the reasons why the tenant can't run a version of an app.

        A possible reason is too little memory in every GPUSpec that is available to the tenant.
        """
        if version.lifecycle in ("Retired", "Revoked"):
            go_to = f": use {version.replaced_by}" if version.replaced_by else ""
            yield Barrier(f"it is {version.lifecycle}{go_to}", app.path)
        if self.plan is None:
            yield self._unreadable_plan()
            return
        exposures = sorted({port.exposure for port in version.container.ports} - {"Namespace"})
        allowed = self.plan.model.spec.allow.exposure
        for exposure in exposures:
            if exposure not in allowed:
                message = (
                    f"plan {self.plan.model.name} doesn't allow {exposure}, only {', '.join(['Namespace', *allowed])}"
                )
                yield Barrier(message, self.plan.path)
            elif exposure == "Members" and has_no_users(self.declarations):
                path = path_of(Members.__name__, Scope("tenant", self.name), self.name)
                yield Barrier("nobody can log in: no group, and no user with a subject", path)
        yield from self._unit_barriers(version, list(gpus))

    def _unit_barriers(self, version: AppVersion, gpus: list[GPUOffer]) -> Iterator[Barrier]:
        """Yield barriers if no unit that is available to the tenant has enough memory for the /dev/shm of a version."""
        least = version.container.shm_size or 0
        for_it = [offer.spec for offer in gpus if not offer.barriers]
        if any(spec.model.spec.memory >= least for spec in for_it):
            return
        if for_it:
            largest = max(for_it, key=lambda spec: spec.model.spec.memory)
            message = (
                f"its /dev/shm of {format_size(least)} exceeds the memory of the largest available unit, "
                f"{largest.model.name} with {format_size(largest.model.spec.memory)}"
            )
            yield Barrier(message, largest.path)
            return
        of_all = [
            barrier
            for barrier in (gpus[0].barriers if gpus else ())
            if all(barrier in offer.barriers for offer in gpus)
        ]
        # If the tenant has no plan, `app_barriers` does not call this method.
        assert self.plan is not None
        yield from of_all or [Barrier("no GPUSpec is available for it", self.plan.path)]

    def _unreadable_plan(self) -> Barrier:
        return Barrier("the tenant's plan can't be read", self.path)

    def _lifecycle_barriers(
        self, cluster: str, offer: DeclarationFile[GPUSpec] | DeclarationFile[StorageSpec], lifecycle: str
    ) -> Iterator[Barrier]:
        if self.plan is None:
            yield self._unreadable_plan()
        if self.lifecycle in ("Suspended", "Retired"):
            yield Barrier(f"the tenant is {self.lifecycle}", self.path)
        if lifecycle == "Retired":
            yield Barrier("it is Retired", offer.path)
        declared = self.catalog.clusters[cluster].get_singleton(Cluster)
        if declared is not None and declared.model.spec.lifecycle == "Retired":
            yield Barrier(f"cluster {cluster} is Retired", declared.path)

    def _count_barriers(self, used: int, limit: int, field: str) -> Iterator[Barrier]:
        if used >= limit:
            yield Barrier(f"{used} of {limit} {field} are declared", self.quota_path(field))

    def _budget_barriers(self, more: Decimal) -> Iterator[Barrier]:
        budget = self.plan.model.spec.budget if self.plan is not None else None
        platform = self.catalog.platform.get_singleton(Platform)
        if self.plan is None or budget is None or budget.enforcement == "Warn" or platform is None:
            return
        if self.cost + more > budget.per_month:
            remaining = budget.per_month - self.cost
            message = f"a month of it costs {format_money(more)} {platform.model.spec.billing.currency}, and {format_money(remaining)} of {format_money(budget.per_month)} is left"
            yield Barrier(message, self.plan.path)
