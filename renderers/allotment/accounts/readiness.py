"""What keeps a declared instance from running now, in words; and the units it claims meanwhile."""

from __future__ import annotations

from allotment.accounts.capacity import Claim, holding, runs
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.app import App, AppVersion
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant


def app_version(offers: Offers, instance: GPUInstance) -> AppVersion | None:
    """Return the catalog version that an instance runs, or None when it brings its own image."""
    choice = instance.spec.app
    app = offers.platform.of(App).get(choice.name) if choice else None
    if app is None or choice is None:
        return None
    return next((one for one in app.model.spec.versions if one.version == choice.version), None)


def waits_for(offers: Offers, tenant: Folder, instance: GPUInstance) -> list[str]:
    """Return what an instance waits for before any copy of it runs; empty when it may run now.

    Without a status no preparation has been observed to succeed, so a storage that is prepared is waited for.
    """
    if instance.spec.state == "Stopped":
        return ["state: Stopped"]
    declared = tenant.one(Tenant)
    if declared is not None and not runs(tenant):
        return [f"tenant is {declared.model.spec.lifecycle}"]
    version = app_version(offers, instance)
    if version is not None and version.lifecycle == "Revoked":
        return [f"version {version.version} is revoked"]
    storages = tenant.of(GPUStorage)
    mounted = sorted({mount.name for mount in instance.spec.storages if mount.name in storages})
    unprepared = [name for name in mounted if storages[name].model.spec.prepare is not None]
    short = [] if units_of(offers, tenant, instance) else short_of(offers, tenant, instance)
    return short + [f"preparation of storage {name}" for name in unprepared]


def units_of(offers: Offers, tenant: Folder, instance: GPUInstance) -> int:
    """Return how many of its declared units an instance gets."""
    return min(instance.spec.replicas, offers.granted.get((tenant.name, instance.name), instance.spec.replicas))


def short_of(offers: Offers, tenant: Folder, instance: GPUInstance) -> list[str]:
    """Return what an instance says of units that it declares and doesn't get; empty when it gets all."""
    missing = instance.spec.replicas - units_of(offers, tenant, instance)
    units = f"{missing} {'unit' if missing == 1 else 'units'} of {instance.spec.gpu_spec}"
    return [f"{units} on {instance.spec.cluster}: none is free"] if missing else []


def replicas_of(offers: Offers, tenant: Folder, instance: GPUInstance) -> int:
    """Return how many copies of an instance run now."""
    return 0 if waits_for(offers, tenant, instance) else units_of(offers, tenant, instance)


def claims(offers: Offers, tenant: Folder) -> list[Claim]:
    """Return what the tenant's instances hold, also while they wait."""
    return [_claim(offers, tenant, one) for one in holding(tenant)]


def _claim(offers: Offers, tenant: Folder, instance: Declared[GPUInstance]) -> Claim:
    spec, units = instance.model.spec, units_of(offers, tenant, instance.model)
    rendered = replicas_of(offers, tenant, instance.model)
    return Claim(spec.cluster, spec.gpu_spec, tenant.name, instance.model.name, units, rendered)
