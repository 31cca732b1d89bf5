"""Determines the start gates of a declared instance, and the units that the instance claims even while it waits.

A start gate is a condition that an instance waits for before it gets pods.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment import conditions
from allotment.capacity.units import UnitClaim, instances_holding_units, is_active
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.app import App, AppVersion
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.tenant import Tenant
from allotment.preparation.runtime_state import RuntimeState
from allotment.preparation.sources import is_prepared


def app_version(catalog: Catalog, instance: GPUInstance) -> AppVersion | None:
    """Return the app version that an instance runs; None for a custom image or an undeclared version."""
    choice = instance.spec.app
    app = catalog.platform.of_kind(App).get(choice.name) if choice else None
    if app is None or choice is None:
        return None
    return next((version for version in app.model.spec.versions if version.version == choice.version), None)


class StartGate(NamedTuple):
    """The reason why an instance runs fewer replicas than it declares: a constant of `conditions`, and a message."""

    reason: str
    message: str


def find_start_gates(
    catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState, instance: GPUInstance
) -> list[StartGate]:
    """Return the start gates of an instance; empty if it may run now.

    An instance waits for each of its storages until the storage's preparation has succeeded.
    """
    if instance.spec.state == "Stopped":
        return [StartGate(conditions.STOPPED_AS_DECLARED, "state: Stopped")]
    if instance.spec.hold is not None:
        return [StartGate(conditions.ON_HOLD, f"on hold: {instance.spec.hold.reason}")]
    declared = tenant.get_singleton(Tenant)
    if declared is not None and not is_active(tenant):
        return [StartGate(conditions.TENANT_SUSPENDED, f"tenant is {declared.model.spec.lifecycle}")]
    version = app_version(catalog, instance)
    if version is not None and version.lifecycle == "Revoked":
        return [StartGate(conditions.VERSION_REVOKED, f"version {version.version} is revoked")]
    short = [] if count_allocated_units(runtime_state, instance) else find_unit_shortage(runtime_state, instance)
    return short + [
        StartGate(conditions.STORAGE_UNPREPARED, f"preparation of storage {name}")
        for name in unprepared_storages(tenant, runtime_state, instance)
    ]


def unprepared_storages(tenant: ScopeDeclarations, runtime_state: RuntimeState, instance: GPUInstance) -> list[str]:
    """Return the sorted names of the mounted storages that are not prepared yet."""
    storages = tenant.of_kind(GPUStorage)
    mounted = sorted({mount.name for mount in instance.spec.storages if mount.name in storages})
    return [name for name in mounted if not is_prepared(tenant, runtime_state, name)]


def count_allocated_units(runtime_state: RuntimeState, instance: GPUInstance) -> int:
    """Return the number of units that an instance gets; it may be lower than the declared number."""
    return min(instance.spec.replicas, runtime_state.allocated_units.get(instance.name, instance.spec.replicas))


def find_unit_shortage(runtime_state: RuntimeState, instance: GPUInstance) -> list[StartGate]:
    """Return a start gate for the declared units that an instance doesn't get; empty if it gets all units."""
    missing = instance.spec.replicas - count_allocated_units(runtime_state, instance)
    units = f"{missing} {'unit' if missing == 1 else 'units'} of {instance.spec.gpu_spec}"
    message = f"{units} on {instance.spec.cluster}: none is free"
    return [StartGate(conditions.NO_FREE_UNIT, message)] if missing else []


def count_running_replicas(
    catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState, instance: GPUInstance
) -> int:
    """Return the number of replicas of an instance that may run now."""
    return (
        0
        if find_start_gates(catalog, tenant, runtime_state, instance)
        else count_allocated_units(runtime_state, instance)
    )


def claim_units(catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState) -> list[UnitClaim]:
    """Return the unit claims of a tenant's instances, including instances that wait."""
    return [
        _claim_instance_units(catalog, tenant, runtime_state, instance) for instance in instances_holding_units(tenant)
    ]


def _claim_instance_units(
    catalog: Catalog, tenant: ScopeDeclarations, runtime_state: RuntimeState, instance: DeclarationFile[GPUInstance]
) -> UnitClaim:
    spec, units = instance.model.spec, count_allocated_units(runtime_state, instance.model)
    rendered = count_running_replicas(catalog, tenant, runtime_state, instance.model)
    return UnitClaim(spec.cluster, spec.gpu_spec, tenant.name, instance.model.name, units, rendered)
