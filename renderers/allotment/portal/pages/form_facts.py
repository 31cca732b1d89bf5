"""Describes the limits of a tenant for the forms on its pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from allotment import API_VERSION
from allotment.billing.periods import HOUR_SECONDS
from allotment.capacity.pricing import HOURS_A_MONTH
from allotment.declared.autofix import build_schema_line
from allotment.declared.kinds.members import MAX_USERS
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.layout import WINDOWS_DEVICE_NAMES, Scope, path_of
from allotment.declared.values import ABSOLUTE_PATH, MAX_MOUNT_PATH, SYSTEM_PATHS
from allotment.observed.quantity import parse_quantity
from allotment.observed.resource_rows import InstanceRowOutput
from allotment.portal.pages.forge_links import MAX_URL
from allotment.portal.pages.public_pages import describe_gpu_spec
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import InstanceDetail, StorageDetail, TenantArea

MAX_NAMES = 1_000  # of declared resources that a form compares with a new name
INSTANCE_KIND, STORAGE_KIND, MEMBERS_KIND, SNAPSHOT_KIND = "GPUInstance", "GPUStorage", "Members", "GPUStorageSnapshot"

_DEVICE_NAMES = sorted(WINDOWS_DEVICE_NAMES)


def describe_new(site: SiteFacts, area: TenantArea, kind: str) -> dict[str, Any]:
    """Return the facts of the form for a new instance or storage. `kind` is its kind."""
    path = path_of(kind, Scope("tenant", area.name), "name")
    names = area.instance_names if kind == INSTANCE_KIND else area.storage_names
    facts = {
        "names": names[:MAX_NAMES],
        "hasAllNames": len(names) <= MAX_NAMES,
        "deviceNames": _DEVICE_NAMES,
    }
    if kind == INSTANCE_KIND:
        mount = {"pattern": ABSOLUTE_PATH.pattern, "maxLength": MAX_MOUNT_PATH, "systemPaths": SYSTEM_PATHS}
        has_ssh_keys = any(member.ssh_keys and member.role != "Viewer" for member in area.members)
        facts |= {"storages": _list_storages(area), "mount": mount, "hasSshKeys": has_ssh_keys}
    return _describe_limits(area) | facts | {"header": _build_header(path, kind), "forge": _describe_forge(site, "")}


def build_file_start(area: TenantArea, kind: str) -> str:
    """Return the first lines of a new file, up to `metadata:`."""
    path = path_of(kind, Scope("tenant", area.name), "name")
    return "".join(f"{line}\n" for line in _build_header(path, kind))


def _build_header(path: str, kind: str) -> list[str]:
    """Return the first lines of a new file."""
    return f"{build_schema_line(path, kind)}apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:".split("\n")


def describe_state(site: SiteFacts, area: TenantArea, instance: InstanceDetail) -> dict[str, Any]:
    """Return the facts of the form that changes an instance."""
    row = instance.row
    facts: dict[str, Any] = {
        "name": row.name,
        "state": row.state or "",
        "cluster": row.cluster,
        "gpuSpec": row.gpu_spec,
    }
    facts |= {"replicas": row.replicas, "barriers": list(_list_start_barriers(area, row))}
    facts["singleMounts"] = _list_single_mounts(area, row)
    return _describe_limits(area) | facts | _describe_file(site, row.path)


def _list_start_barriers(area: TenantArea, row: InstanceRowOutput) -> Iterator[str]:
    """Yield the reasons why an instance can't start with its storages."""
    if row.state == "Running":
        return
    for name in _list_single_mounts(area, row):
        if row.replicas > 1:
            yield f"{name} is a storage for one replica, and the instance has {row.replicas}."
        if others := area.running_mounts.get(name):
            yield f"{name} is a storage for one instance, and {others[0]} mounts it: first stop {others[0]}."
        if name in area.edited_storages:
            yield f"{name} is a storage for one instance, and its accessor may change it: first make the accessor ReadOnly."


def _list_single_mounts(area: TenantArea, row: InstanceRowOutput) -> list[str]:
    """Return the mounted storages that only one pod can mount."""
    access, specs = _list_access(area), {each.row.name: each.row.storage_spec for each in area.storages}
    return [name for name in row.storages if access.get(specs.get(name) or "") == "ReadWriteOnce"]


def describe_size(site: SiteFacts, area: TenantArea, storage: StorageDetail) -> dict[str, Any]:
    """Return the facts of the form that changes a storage."""
    row = storage.row
    facts: dict[str, Any] = {"name": row.name, "cluster": row.cluster, "storageSpec": row.storage_spec or ""}
    facts["size"] = int(parse_quantity(row.size))
    smallest = min(storage.copies, key=lambda copy: copy.size, default=None)
    facts["copy"] = [smallest.name, smallest.size] if smallest is not None else None
    return _describe_limits(area) | facts | _describe_file(site, row.path) | {"deviceNames": _DEVICE_NAMES}


def describe_members(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the facts of the form that changes the members."""
    names = [member.name for member in area.members if member.kind == "User"]
    facts: dict[str, Any] = {"tenant": area.name, "names": names, "most": MAX_USERS}
    path = path_of(MEMBERS_KIND, Scope("tenant", area.name), area.name)
    facts["header"] = [*_build_header(path, MEMBERS_KIND), f"  name: {area.name}"] if area.members_text == "" else []
    return facts | _describe_file(site, path)


def describe_secret(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the facts of the form for a new secret."""
    return {"tenant": area.name, "deviceNames": _DEVICE_NAMES, "forge": _describe_forge(site, "")}


def _describe_file(site: SiteFacts, path: str) -> dict[str, Any]:
    """Return the path of a declaration, and its editor."""
    return {"path": path, "forge": _describe_forge(site, path)}


def _describe_forge(site: SiteFacts, path: str) -> dict[str, Any]:
    """Return the addresses of the forge's editors, for a new file and for the file at `path`."""
    path_field, content_field = site.forge.new_file_fields
    return {
        "newFile": site.forge.new_file,
        "pathField": path_field,
        "contentField": content_field,
        "maxUrl": MAX_URL,
        "editor": site.forge.editor(path) if path else "",
    }


def _describe_limits(area: TenantArea) -> dict[str, Any]:
    """Return the tariff plan, quota and budget of a tenant. Money is exact text, and GPUs are fractions."""
    allowance = area.allowance
    plan = allowance.plan.model.spec if allowance.plan is not None else None
    budget = plan.budget if plan is not None else None
    return {
        "tenant": area.name,
        "isActive": area.lifecycle == "Active",
        "sharing": plan.allow.sharing if plan is not None else [],
        "exposure": ["Namespace", *plan.allow.exposure] if plan is not None else [],
        "canLogIn": any(member.kind == "Group" or member.subject for member in area.members),
        "quota": _describe_quota(area),
        "budget": str(budget.per_month) if budget is not None else None,
        "enforcement": budget.enforcement if budget is not None else "",
        "cost": f"{allowance.cost:f}",
        "month": _describe_month(area),
        "reserved": [describe_gpu_spec(spec) for spec in area.reserved],
    }


def _describe_month(area: TenantArea) -> dict[str, Any] | None:
    """Return the forecast of the current month, the rest of the month as a fraction of a month of 730 hours, and the clusters with a
    usage record.
    """
    forecast = area.month.forecast if area.month is not None else None
    if forecast is None:
        return None
    rest = [area.seconds_left, HOURS_A_MONTH * HOUR_SECONDS]
    clusters = sorted(area.recorded_clusters)
    return {"name": forecast.month, "forecast": f"{forecast.after:f}", "rest": rest, "clusters": clusters}


def _list_storages(area: TenantArea) -> list[dict[str, Any]]:
    """Return the storages that an instance can mount."""
    access = _list_access(area)
    return [
        {
            "name": storage.row.name,
            "cluster": storage.row.cluster,
            "access": access.get(storage.row.storage_spec or "", ""),
            "barrier": _describe_use(area, storage.row.name),
        }
        for storage in area.storages
        if storage.text
    ]


def _describe_use(area: TenantArea, storage: str) -> str:
    """Return why another instance can't mount a storage for one instance; empty if it can."""
    if mounts := area.running_mounts.get(storage):
        return f"mounted by {mounts[0]}"
    return "its accessor changes files" if storage in area.edited_storages else ""


def _list_access(area: TenantArea) -> dict[str, str]:
    """Return the access of each storage spec, such as ReadWriteOnce. Storages may still have a Retired storage spec."""
    specs = area.allowance.catalog.platform.of_kind(StorageSpec)
    return {name: spec.model.spec.access for name, spec in specs.items()}


def _describe_quota(area: TenantArea) -> Mapping[str, Any]:
    limits, usage = area.allowance.limits, area.allowance.usage
    if limits is None:
        return {"gpus": {}, "usedGpus": {}, "instances": [0, 0], "storages": [0, 0], "storage": [0, 0]}
    return {
        "gpus": limits.gpus,
        "usedGpus": {model: [used.numerator, used.denominator] for model, used in usage.gpus.items()},
        "instances": [usage.instances, limits.instances],
        "storages": [usage.storages, limits.storages],
        "storage": [usage.storage, limits.storage],
    }
