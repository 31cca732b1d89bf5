"""Describes the limits of a tenant for the forms on its pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allotment import API_VERSION
from allotment.declared.autofix import build_schema_line
from allotment.declared.layout import Scope, path_of
from allotment.portal.forge_links import MAX_URL
from allotment.portal.site_facts import SiteFacts
from allotment.portal.tenant_area import InstanceDetail, StorageDetail, TenantArea

INSTANCE_KIND, STORAGE_KIND, MEMBERS_KIND = "GPUInstance", "GPUStorage", "Members"


def describe_new(site: SiteFacts, area: TenantArea, kind: str) -> dict[str, Any]:
    """Return the facts of the form for a new instance or storage. `kind` is its kind."""
    path = path_of(kind, Scope("tenant", area.name), "name")
    header = f"{build_schema_line(path, kind)}apiVersion: {API_VERSION}\nkind: {kind}\nmetadata:"
    return _describe_limits(site, area) | {"header": header.split("\n"), "forge": _describe_forge(site, "")}


def describe_state(site: SiteFacts, area: TenantArea, instance: InstanceDetail) -> dict[str, Any]:
    """Return the facts of the form that stops or starts an instance."""
    row = instance.row
    facts = {"tenant": area.name, "name": row.name, "state": row.state}
    return facts | _describe_file(site, row.path, instance.text)


def describe_size(site: SiteFacts, area: TenantArea, storage: StorageDetail) -> dict[str, Any]:
    """Return the facts of the form that grows a storage."""
    row = storage.row
    facts = {"name": row.name, "cluster": row.cluster, "storageSpec": row.storage_spec, "size": row.size}
    return _describe_limits(site, area) | facts | _describe_file(site, row.path, storage.text)


def describe_members(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the facts of the form that adds a member."""
    facts = {"tenant": area.name, "users": [member.name for member in area.members if member.kind == "User"]}
    path = path_of(MEMBERS_KIND, Scope("tenant", area.name), area.name)
    return facts | _describe_file(site, path, area.members_text)


def _describe_file(site: SiteFacts, path: str, text: str) -> dict[str, Any]:
    return {"path": path, "text": text, "forge": _describe_forge(site, path)}


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


def _describe_limits(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the tariff plan, quota, budget and resources of a tenant. Money is exact text, and GPUs are fractions."""
    allowance = area.allowance
    plan = allowance.plan.model.spec if allowance.plan is not None else None
    budget = plan.budget if plan is not None else None
    access = {spec.name: spec.access for spec in site.storage_specs}
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
        "reserved": [
            {"cluster": offer.cluster, "gpuSpec": offer.gpu_spec, "free": offer.free} for offer in area.reserved
        ],
        "instances": [instance.row.name for instance in area.instances],
        "storages": [
            {
                "name": storage.row.name,
                "cluster": storage.row.cluster,
                "access": access.get(storage.row.storage_spec, ""),
                "mountedBy": storage.row.mounted_by,
            }
            for storage in area.storages
            if storage.text
        ],
    }


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
