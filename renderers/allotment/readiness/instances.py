"""What keeps a declared instance from running now, in words; and the units it claims meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from allotment import conditions
from allotment.accounts.capacity import Claim, holding, runs
from allotment.declared.inventory import Declared, Folder, Offers
from allotment.declared.kinds.app import App, AppVersion
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant
from allotment.readiness.sources import is_prepared
from allotment.readiness.standing import Standing


def app_version(offers: Offers, instance: GPUInstance) -> AppVersion | None:
    """Return the catalog version that an instance runs, or None when it brings its own image."""
    choice = instance.spec.app
    app = offers.platform.of(App).get(choice.name) if choice else None
    if app is None or choice is None:
        return None
    return next((version for version in app.model.spec.versions if version.version == choice.version), None)


class Wait(NamedTuple):
    """Why an instance runs fewer copies than it declares: a reason of `conditions`, and the same in words."""

    reason: str
    words: str


def waits_for(offers: Offers, tenant: Folder, standing: Standing, instance: GPUInstance) -> list[Wait]:
    """Return what an instance waits for before any copy of it runs; empty when it may run now.

    A storage that is prepared is waited for until its preparation is known to have succeeded.
    """
    if instance.spec.state == "Stopped":
        return [Wait(conditions.STOPPED_AS_DECLARED, "state: Stopped")]
    declared = tenant.one(Tenant)
    if declared is not None and not runs(tenant):
        return [Wait(conditions.TENANT_SUSPENDED, f"tenant is {declared.model.spec.lifecycle}")]
    version = app_version(offers, instance)
    if version is not None and version.lifecycle == "Revoked":
        return [Wait(conditions.VERSION_REVOKED, f"version {version.version} is revoked")]
    short = [] if units_of(standing, instance) else short_of(standing, instance)
    return short + [
        Wait(conditions.STORAGE_UNPREPARED, f"preparation of storage {name}")
        for name in unprepared(tenant, standing, instance)
    ]


def unprepared(tenant: Folder, standing: Standing, instance: GPUInstance) -> list[str]:
    """Return the storages that an instance mounts and whose preparation isn't known to have succeeded, sorted."""
    storages = tenant.of(GPUStorage)
    mounted = sorted({mount.name for mount in instance.spec.storages if mount.name in storages})
    return [name for name in mounted if not is_prepared(tenant, standing, name)]


def units_of(standing: Standing, instance: GPUInstance) -> int:
    """Return how many of its declared units an instance gets."""
    return min(instance.spec.replicas, standing.granted.get(instance.name, instance.spec.replicas))


def short_of(standing: Standing, instance: GPUInstance) -> list[Wait]:
    """Return what an instance says of units that it declares and doesn't get; empty when it gets all."""
    missing = instance.spec.replicas - units_of(standing, instance)
    units = f"{missing} {'unit' if missing == 1 else 'units'} of {instance.spec.gpu_spec}"
    words = f"{units} on {instance.spec.cluster}: none is free"
    return [Wait(conditions.NO_FREE_UNIT, words)] if missing else []


def replicas_of(offers: Offers, tenant: Folder, standing: Standing, instance: GPUInstance) -> int:
    """Return how many copies of an instance run now."""
    return 0 if waits_for(offers, tenant, standing, instance) else units_of(standing, instance)


def claims(offers: Offers, tenant: Folder, standing: Standing) -> list[Claim]:
    """Return what the tenant's instances hold, also while they wait."""
    return [_claim(offers, tenant, standing, instance) for instance in holding(tenant)]


def _claim(offers: Offers, tenant: Folder, standing: Standing, instance: Declared[GPUInstance]) -> Claim:
    spec, units = instance.model.spec, units_of(standing, instance.model)
    rendered = replicas_of(offers, tenant, standing, instance.model)
    return Claim(spec.cluster, spec.gpu_spec, tenant.name, instance.model.name, units, rendered)
