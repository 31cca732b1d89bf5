"""Quota: what a tenant declares stays within its plan's quota, or its own where it replaces the plan's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from allotment.accounts.capacity import holding, physical_gpus
from allotment.declared.inventory import Folder, Offers
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.plan import PartialQuota, Quota
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import size_text
from allotment.problems import Finding
from allotment.rules.limits import plan_of

RULE = "quota"


class Limits(NamedTuple):
    """The quota that holds for a tenant: physical GPUs by model, counts, bytes."""

    gpus: dict[str, int]
    instances: int
    storages: int
    storage: int
    snapshots: int


def limits_of(offers: Offers, tenant: Folder) -> Limits | None:
    """Return a tenant's quota, its own keys over its plan's; None when it has no plan."""
    plan, declared = plan_of(offers, tenant), tenant.one(Tenant)
    if plan is None or declared is None:
        return None
    base: Quota = plan.model.spec.quota
    own = declared.model.spec.quota
    if own is None:
        own = PartialQuota(gpus={})
    storages = base.storages if own.storages is None else own.storages
    snapshots = base.snapshots if own.snapshots is None else own.snapshots
    return Limits(
        {**base.gpus, **own.gpus},
        base.instances if own.instances is None else own.instances,
        storages,
        base.storage if own.storage is None else own.storage,
        storages if snapshots is None else snapshots,
    )


def check(offers: Offers, tenant: Folder) -> Iterator[Finding]:
    """Check a tenant's sums."""
    limits, declared = limits_of(offers, tenant), tenant.one(Tenant)
    if limits is None or declared is None:
        return
    instances, storages, snapshots = tenant.of(GPUInstance), tenant.of(GPUStorage), tenant.of(GPUStorageSnapshot)
    plan = f"plan {declared.model.spec.plan}"
    for count, limit, what, related in (
        (len(instances), limits.instances, "instances", instances),
        (len(storages), limits.storages, "storages", storages),
        (len(snapshots), limits.snapshots, "snapshots", snapshots),
    ):
        if count > limit:
            paths = tuple(one.path for one in related.values())
            yield declared.finding(
                "spec",
                f"{count} {what} are declared, {plan} allows {limit}: remove {count - limit}",
                RULE,
                related=paths,
            )
    sizes = sorted(
        ((one.model.spec.size, one.model.name, one.path) for one in storages.values()),
        key=lambda one: (-one[0], one[1]),
    )
    total = sum(size for size, _, _ in sizes)
    if total > limits.storage:
        largest = ", ".join(f"{name} {size_text(size)}" for size, name, _ in sizes[:3])
        message = f"storages take {size_text(total)} together, {plan} allows {size_text(limits.storage)}; the largest: {largest}"
        yield declared.finding("spec", message, RULE, related=tuple(path for _, _, path in sizes))
    yield from _check_gpus(offers, tenant, limits, plan)


class Usage(NamedTuple):
    """What a tenant declares of what its quota limits: physical GPUs that running instances take by model, counts,
    bytes."""

    gpus: dict[str, Fraction]
    instances: int
    storages: int
    storage: int
    snapshots: int


def usage(offers: Offers, tenant: Folder) -> Usage:
    """Return what a tenant declares."""
    gpus = {model: sum((part for part, _, _ in parts), Fraction(0)) for model, parts in _gpus(offers, tenant).items()}
    instances, storages = tenant.of(GPUInstance), tenant.of(GPUStorage)
    return Usage(
        gpus,
        len(instances),
        len(storages),
        sum(one.model.spec.size for one in storages.values()),
        len(tenant.of(GPUStorageSnapshot)),
    )


def _gpus(offers: Offers, tenant: Folder) -> dict[str, list[tuple[Fraction, str, str]]]:
    """Return who takes how many physical GPUs of each model, with the path that says so."""
    specs = offers.platform.of(GPUSpec)
    used: dict[str, list[tuple[Fraction, str, str]]] = defaultdict(list)
    for instance in holding(tenant):
        spec = specs.get(instance.model.spec.gpu_spec)
        if spec is not None:
            gpus = physical_gpus(spec.model.spec) * instance.model.spec.replicas
            used[spec.model.spec.gpu.model].append((gpus, instance.model.name, instance.path))
    return used


def _check_gpus(offers: Offers, tenant: Folder, limits: Limits, plan: str) -> Iterator[Finding]:
    declared = tenant.one(Tenant)
    assert declared is not None
    for model, parts in sorted(_gpus(offers, tenant).items()):
        total, limit = sum((gpus for gpus, _, _ in parts), Fraction(0)), limits.gpus.get(model, 0)
        if total > limit:
            parts.sort(key=lambda part: (-part[0], part[1]))
            largest = ", ".join(f"{name} {gpus}" for gpus, name, _ in parts[:3])
            message = f"running instances take {total} {model} GPUs, {plan} allows {limit}; the largest: {largest}"
            yield declared.finding("spec", message, RULE, related=tuple(path for _, _, path in parts))
