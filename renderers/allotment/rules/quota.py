"""Quota: a tenant's declarations stay within the limits of the tenant's quota.

The quota limits the number of GPUs, instances, storages and snapshots, and the total size of all storages. The tariff
plan of the tenant declares each limit. The field `spec.quota` of the Tenant can replace a limit of the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from allotment.capacity.units import instances_holding_units, physical_gpus
from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.plan import PartialQuota, Plan, Quota
from allotment.declared.kinds.tenant import Tenant
from allotment.declared.values import format_decimal, format_size
from allotment.problems import Finding
from allotment.rules.limits import plan_of

RULE = "quota"
MAX_SHOWN_USERS = 3  # a message names at most this many instances or storages, the largest first


class QuotaLimits(NamedTuple):
    """The limits that apply to a tenant.

    `gpus` has the maximum number of physical GPUs of each GPU model, and `storage` is the maximum total size of all
    storages in bytes. The other fields are the maximum numbers of resources of each kind.
    """

    gpus: dict[str, int]
    instances: int
    storages: int
    storage: int
    snapshots: int


def limits_of(catalog: Catalog, tenant: ScopeDeclarations) -> QuotaLimits | None:
    """Return the limits that apply to a tenant: the limits of its plan, except limits that the tenant's quota replaces.

    Returns None if the declaration of the tenant or of its plan can't be read.
    """
    plan, declared = plan_of(catalog, tenant), tenant.get_singleton(Tenant)
    if plan is None or declared is None:
        return None
    return merge_quotas(plan.model.spec.quota, declared.model.spec.quota)


def merge_quotas(base: Quota, own: PartialQuota | None) -> QuotaLimits:
    """Return the limits of a plan's quota, except limits that the quota of the tenant replaces."""
    if own is None:
        own = PartialQuota(gpus={})
    storages = base.storages if own.storages is None else own.storages
    snapshots = base.snapshots if own.snapshots is None else own.snapshots
    return QuotaLimits(
        {**base.gpus, **own.gpus},
        base.instances if own.instances is None else own.instances,
        storages,
        base.storage if own.storage is None else own.storage,
        storages if snapshots is None else snapshots,
    )


class _LimitSource(NamedTuple):
    """The source of a limit: the tenant's own quota or its plan.

    A message points at `field` in the tenant's file. `description` and `remedy` are parts of the message.
    """

    field: tuple[str, ...]
    description: str
    remedy: str


def _limit_source(declared: DeclarationFile[Tenant], plan: DeclarationFile[Plan], *key: str) -> _LimitSource:
    """Return the source of a limit. `key` is the path of the limit in a quota, one word for each level: "gpus", "nvidia-l4"."""
    command = f"`allot request quota {declared.model.name} {'.'.join(key)}=VALUE --reason TEXT`"
    own = declared.model.spec.quota
    own_quota = {} if own is None else own.model_dump(by_alias=True, exclude_none=True)
    if key == ("snapshots",) and "snapshots" not in own_quota and plan.model.spec.quota.snapshots is None:
        key = ("storages",)  # by default, the limit of snapshots is the limit of storages
    if key[-1] in (own_quota.get("gpus", {}) if len(key) > 1 else own_quota):
        description = f"tenant {declared.model.name}'s own quota allows"
        return _LimitSource(("spec", "quota", *key), description, f"or ask the platform team to raise it: {command}")
    description = f"plan {plan.model.name} allows"
    remedy = f"or ask the platform team for another plan, or for a tenant quota: {command}"
    return _LimitSource(("spec", "plan"), description, remedy)


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Yield a finding for each limit of the quota that the tenant exceeds."""
    limits, declared, plan = limits_of(catalog, tenant), tenant.get_singleton(Tenant), plan_of(catalog, tenant)
    if limits is None or declared is None or plan is None:
        return

    def build_finding(limit_source: _LimitSource, message: str, paths: Iterable[str]) -> Finding:
        return Finding(
            declared.path, limit_source.field, f"{message}, {limit_source.remedy}", RULE, related=(plan.path, *paths)
        )

    instances, storages, snapshots = (
        tenant.of_kind(GPUInstance),
        tenant.of_kind(GPUStorage),
        tenant.of_kind(GPUStorageSnapshot),
    )
    for count, limit, noun, related in (
        (len(instances), limits.instances, "instance", instances),
        (len(storages), limits.storages, "storage", storages),
        (len(snapshots), limits.snapshots, "snapshot", snapshots),
    ):
        if count > limit:
            limit_source = _limit_source(declared, plan, f"{noun}s")
            are = f"{noun} is" if count == 1 else f"{noun}s are"
            message = f"{count} {are} declared, {limit_source.description} {limit}: remove {count - limit}"
            yield build_finding(limit_source, message, (declaration.path for declaration in related.values()))
    sizes = sorted(
        ((storage.model.spec.size, storage.model.name, storage.path) for storage in storages.values()),
        key=lambda entry: (-entry[0], entry[1]),
    )
    total = sum(size for size, _, _ in sizes)
    if total > limits.storage:
        limit_source = _limit_source(declared, plan, "storage")
        largest = ", ".join(f"{name} {format_size(size)}" for size, name, _ in sizes[:MAX_SHOWN_USERS])
        message = (
            f"storages take {format_size(total)} together, {limit_source.description} {format_size(limits.storage)}; the largest are"
            f" {largest}: declare {format_size(total - limits.storage)} less"
        )
        yield build_finding(limit_source, message, (path for _, _, path in sizes))
    for model, parts in sorted(_gpu_users(catalog, tenant).items()):
        used, most = sum((gpus for gpus, _, _ in parts), Fraction(0)), limits.gpus.get(model, 0)
        if used > most:
            limit_source = _limit_source(declared, plan, "gpus", model)
            parts.sort(key=lambda part: (-part[0], part[1]))
            largest = ", ".join(f"{name} {format_decimal(gpus)}" for gpus, name, _ in parts[:MAX_SHOWN_USERS])
            message = (
                f"running instances take {format_decimal(used)} {model} GPUs, {limit_source.description} {most}; the largest are"
                f" {largest}: stop some, or run them on smaller units"
            )
            yield build_finding(limit_source, message, (path for _, _, path in parts))


class QuotaUsage(NamedTuple):
    """The part of a tenant's quota that the declarations of the tenant use.

    `gpus` has the number of physical GPUs of running instances by GPU model, and `storage` is the total size of all
    storages in bytes. The other fields are numbers of resources.
    """

    gpus: dict[str, Fraction]
    instances: int
    storages: int
    storage: int
    snapshots: int


def compute_quota_usage(catalog: Catalog, tenant: ScopeDeclarations) -> QuotaUsage:
    """Return the part of a tenant's quota that the declarations of the tenant use."""
    gpus = {
        model: sum((part for part, _, _ in parts), Fraction(0)) for model, parts in _gpu_users(catalog, tenant).items()
    }
    instances, storages = tenant.of_kind(GPUInstance), tenant.of_kind(GPUStorage)
    return QuotaUsage(
        gpus,
        len(instances),
        len(storages),
        sum(storage.model.spec.size for storage in storages.values()),
        len(tenant.of_kind(GPUStorageSnapshot)),
    )


def _gpu_users(catalog: Catalog, tenant: ScopeDeclarations) -> dict[str, list[tuple[Fraction, str, str]]]:
    """Return the instances that hold units, by GPU model: the physical GPUs, the name and the path of each instance."""
    specs = catalog.platform.of_kind(GPUSpec)
    used: dict[str, list[tuple[Fraction, str, str]]] = defaultdict(list)
    for instance in instances_holding_units(tenant):
        spec = specs.get(instance.model.spec.gpu_spec)
        if spec is not None:
            gpus = physical_gpus(spec.model.spec) * instance.model.spec.replicas
            used[spec.model.spec.gpu.model].append((gpus, instance.model.name, instance.path))
    return used
