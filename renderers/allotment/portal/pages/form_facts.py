"""Describes the limits of a tenant for the forms on its pages."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from allotment import API_VERSION
from allotment.billing.periods import HOUR_SECONDS
from allotment.capacity.pricing import HOURS_A_MONTH
from allotment.declared.autofix import build_schema_line
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.members import MAX_USERS
from allotment.declared.kinds.secret_reference import SecretReference
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.layout import WINDOWS_DEVICE_NAMES, Scope, path_of
from allotment.manifests.yaml_text import dump_scalar
from allotment.observed.quantity import parse_quantity
from allotment.observed.resource_rows import InstanceRowOutput, StorageRowOutput
from allotment.portal.pages.folder_patterns import FOLDER_HINT, build_free_folder_pattern
from allotment.portal.pages.forge_links import MAX_URL
from allotment.portal.pages.page_action import add_item
from allotment.portal.pages.public_pages import describe_gpu_spec
from allotment.portal.pages.site_facts import SiteFacts
from allotment.portal.pages.tenant_area import InstanceDetail, SnapshotDetail, StorageDetail, TenantArea

MAX_NAMES = 1_000  # of declared resources that a form compares with a new name
_MAX_TITLE = 60  # characters of a display name or description in a list
INSTANCE_KIND, STORAGE_KIND, MEMBERS_KIND, SNAPSHOT_KIND = "GPUInstance", "GPUStorage", "Members", "GPUStorageSnapshot"

# The formats of a source, as regular expressions of scripts: the kind, and its fields in the order of a declaration.
_SOURCES = {
    "huggingFace": r"^hf:([^/@ ]+\/[^/@ ]+)(?:@([^/ ]+))?\/",
    "patterns": [
        ("url", r"^(?<url>https:\/\/[^ #]+)#sha256=(?<sha256>[0-9a-f]{64})$"),
        ("storage", r"^storage:(?=(?:.*\/)?(?<name>[a-z0-9-]+)$)(?:(?<tenant>[a-z0-9-]+)\/)?[a-z0-9-]+$"),
        ("snapshot", r"^snapshot:(?<name>[a-z0-9-]+)$"),
        ("s3", r"^s3:(?<endpoint>https:\/\/[^/ ]+)\/(?<bucket>[^/ ]+)(?:\/(?<prefix>[^ ]*))?$"),
        ("image", r"^image:(?<image>[^ ]+@sha256:[0-9a-f]{64})$"),
    ],
    "formatProblem": "Write the source like one of the examples below the field, with the hash of a file.",
}
_OWN_SOURCE = r"^(?:snapshot|storage):[^\/]+$"
_NO_SOURCE = "(?!)"  # matches no text
_TOO_MANY_NAMES = "The tenant has too many files to compare their names: check that no file has this name."
_NO_VERSION = "No version of this app is possible in your tariff plan."
_NO_LOGIN = "Nobody could log in to this app: first add a member with a subject."
_NO_SUBJECT = "Without a subject, this person can open instances only as a member of a group of the tenant."
_NO_SSH_KEY = "No Admin or Member of the tenant has an SSH key yet: add sshKeys to a user in members.yaml."
_OTHER_CHARACTERS = re.compile(r"[^A-Z0-9]+")
_DEVICE_NAMES = sorted(WINDOWS_DEVICE_NAMES)


def describe_new(site: SiteFacts, area: TenantArea, kind: str) -> dict[str, Any]:
    """Return the facts of the form for a new instance or storage. `kind` is its kind."""
    path = path_of(kind, Scope("tenant", area.name), "name")
    names = area.instance_names if kind == INSTANCE_KIND else area.storage_names
    facts: dict[str, Any] = {
        "names": names[:MAX_NAMES],
        "notes": [] if len(names) <= MAX_NAMES else [_TOO_MANY_NAMES],
        "deviceNames": _DEVICE_NAMES,
    }
    if kind == STORAGE_KIND:
        facts["sources"] = _SOURCES | _describe_own_sources(area)
    else:
        facts |= {
            "storages": _list_storages(area),
            "folderPattern": build_free_folder_pattern(()),
            "folderHint": FOLDER_HINT,
            "sshNotes": list_ssh_notes(area),
        }
        facts["secrets"] = list_secret_keys(area)
        facts["barriers"] = list(_list_tenant_barriers(area))
        facts["versionProblem"] = _NO_VERSION if _can_log_in(area) else _NO_LOGIN
    return (
        _describe_limits(site, area) | facts | {"header": _build_header(path, kind), "forge": _describe_forge(site, "")}
    )


def list_ssh_notes(area: TenantArea) -> list[str]:
    """Return the note that nobody can log in by SSH yet; empty if a member has a key."""
    return [] if any(member.ssh_keys and member.role != "Viewer" for member in area.members) else [_NO_SSH_KEY]


def list_secret_keys(area: TenantArea) -> list[dict[str, str]]:
    """Return the keys of the tenant's secrets that an instance can read, each with a name for its variable."""
    secrets = [declared.model for declared in area.allowance.declarations.of_kind(SecretReference).values()]
    return [
        {
            "name": f"{secret.name}:{key.name}",
            "cluster": secret.spec.cluster,
            "variable": _OTHER_CHARACTERS.sub("_", f"{secret.name}_{key.name}".upper()),
            "reference": f"            name: {dump_scalar(secret.name)}\n            key: {dump_scalar(key.name)}",
        }
        for secret in secrets
        if not secret.spec.is_image_pull
        for key in secret.spec.keys
    ][:MAX_NAMES]


def _describe_own_sources(area: TenantArea) -> dict[str, Any]:
    """Return the pattern of the tenant's own sources, and the size in bytes of each, by its cluster and its text in the form."""
    access = list_access(area)
    storages = {
        storage.row.name: storage.row
        for storage in area.storages
        if storage.text and access.get(storage.row.storage_spec or "") != "Bucket"
    }
    sources = [(f"storage:{name}", row) for name, row in storages.items()]
    sources += [
        (f"snapshot:{snapshot.name}", storages[snapshot.storage])
        for snapshot in area.snapshots
        if snapshot.storage in storages
    ]
    if len(sources) > MAX_NAMES:
        return {"own": _NO_SOURCE, "sizes": {}}
    sizes = {f"{row.cluster}/{source}": int(parse_quantity(row.size)) for source, row in sources}
    return {"own": _OWN_SOURCE, "sizes": sizes}


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
    limits = _describe_limits(site, area)
    facts["resizeProblem"] = _explain_same_size(site, area, row, limits)
    return limits | facts | _describe_file(site, row.path)


def _explain_same_size(site: SiteFacts, area: TenantArea, row: InstanceRowOutput, limits: dict[str, Any]) -> str:
    """Return the problem of a resize that changes nothing."""
    specs = {
        spec.name
        for spec in (*site.gpu_specs, *area.reserved)
        if spec.cluster == row.cluster and spec.sharing in limits["sharing"] and limits["quota"]["gpus"].get(spec.model)
    }
    if specs <= {row.gpu_spec}:
        return f"Your tariff plan {area.plan} and your quota allow only {row.gpu_spec} in {row.cluster}: choose another number of replicas."
    return f"Choose another GPU spec that your tariff plan {area.plan} allows, or another number of replicas."


def _list_start_barriers(area: TenantArea, row: InstanceRowOutput) -> Iterator[str]:
    """Yield the reasons why an instance can't start with its storages."""
    if row.state == "Running":
        return
    yield from _list_tenant_barriers(area)
    for name in _list_single_mounts(area, row):
        if row.replicas > 1:
            yield f"{name} is a storage for one replica, and the instance has {row.replicas}."
        if others := area.running_mounts.get(name):
            yield f"{name} is a storage for one instance, and {others[0]} mounts it: first stop {others[0]}."
        if name in area.edited_storages:
            yield f"{name} is a storage for one instance, and its accessor may change it: first make the accessor ReadOnly."


def _list_tenant_barriers(area: TenantArea) -> Iterator[str]:
    """Yield the reason why the tenant can't run an instance."""
    if area.lifecycle != "Active":
        yield "The tenant is not Active, so it can't run an instance."


def _list_single_mounts(area: TenantArea, row: InstanceRowOutput) -> list[str]:
    """Return the mounted storages that only one pod can mount."""
    access, specs = list_access(area), {each.row.name: each.row.storage_spec for each in area.storages}
    return [name for name in row.storages if access.get(specs.get(name) or "") == "ReadWriteOnce"]


def describe_size(site: SiteFacts, area: TenantArea, storage: StorageDetail) -> dict[str, Any]:
    """Return the facts of the form that changes a storage."""
    row = storage.row
    facts: dict[str, Any] = {"name": row.name, "cluster": row.cluster, "storageSpec": row.storage_spec or ""}
    facts["size"] = int(parse_quantity(row.size))
    facts["shrinkProblem"] = f"A storage never shrinks: write more than {row.size}."
    return _describe_limits(site, area) | facts | _describe_file(site, row.path) | {"deviceNames": _DEVICE_NAMES}


def describe_snapshot(site: SiteFacts, snapshot: SnapshotDetail) -> dict[str, Any]:
    """Return the facts of the form that deletes a snapshot."""
    return {"name": snapshot.name} | _describe_file(site, snapshot.path)


def describe_members(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the facts of the form that changes the members."""
    names = [member.name for member in area.members if member.kind == "User"]
    barriers = [f"The file has {MAX_USERS} users, which is the limit."] if len(names) >= MAX_USERS else []
    facts: dict[str, Any] = {"tenant": area.name, "names": names, "barriers": barriers, "noSubjectNote": _NO_SUBJECT}
    path = path_of(MEMBERS_KIND, Scope("tenant", area.name), area.name)
    facts["isNew"] = area.members_text == ""
    facts["header"] = [*_build_header(path, MEMBERS_KIND), f"  name: {area.name}", "spec:"] if facts["isNew"] else []
    if area.members_text is not None:
        facts["header"] += add_item(area.members_text, ("users",), "")[0].splitlines()
    return facts | _describe_file(site, path)


def describe_tenant(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the facts of the form with the requests of a tenant."""
    path = path_of("Tenant", Scope("tenant", area.name), area.name)
    return _describe_limits(site, area) | _describe_file(site, path)


def describe_secret(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the facts of the form for a new secret."""
    return {"tenant": area.name, "deviceNames": _DEVICE_NAMES, "forge": _describe_forge(site, "")}


def _describe_file(site: SiteFacts, path: str) -> dict[str, Any]:
    """Return the path of a declaration, and its editor."""
    return {"path": path, "forge": _describe_forge(site, path)}


def _describe_forge(site: SiteFacts, path: str) -> dict[str, Any]:
    """Return the addresses of the forge's pages that create a file, and that edit or remove the file at `path`."""
    path_field, content_field = site.forge.new_file_fields
    return {
        "newFile": site.forge.new_file,
        "pathField": path_field,
        "contentField": content_field,
        "maxUrl": MAX_URL,
        "pages": {"Edit": site.forge.editor(path), "Remove": site.forge.removal(path)} if path else {},
    }


def _describe_limits(site: SiteFacts, area: TenantArea) -> dict[str, Any]:
    """Return the tariff plan, quota and budget of a tenant. Money is exact text, and GPUs are fractions."""
    allowance = area.allowance
    plan = allowance.plan.model.spec if allowance.plan is not None else None
    budget = plan.budget if plan is not None else None
    return {
        "tenant": area.name,
        "isActive": area.lifecycle == "Active",
        "sharing": plan.allow.sharing if plan is not None else [],
        "exposure": ["Namespace", *plan.allow.exposure] if plan is not None else [],
        "canLogIn": _can_log_in(area),
        "quota": _describe_quota(area),
        "budget": str(budget.per_month) if budget is not None else None,
        "enforcement": budget.enforcement if budget is not None else "",
        "cost": f"{allowance.cost:f}",
        "month": _describe_month(area),
        "reserved": [describe_gpu_spec(spec, site.currency) for spec in area.reserved],
    }


def _can_log_in(area: TenantArea) -> bool:
    """Return whether a person of the tenant can log in to an instance."""
    return any(member.kind == "Group" or member.subject for member in area.members)


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
    access = list_access(area)
    return [
        {
            "name": storage.row.name,
            "label": describe_storage(area, storage.row),
            "cluster": storage.row.cluster,
            "access": access.get(storage.row.storage_spec or "", ""),
            "barrier": describe_use(area, storage.row, access.get(storage.row.storage_spec or "", "")),
        }
        for storage in area.storages
        if storage.text
    ]


def describe_storage(area: TenantArea, storage: StorageRowOutput) -> str:
    """Return the name of a storage with its size, and with its display name or the beginning of its description."""
    declared = area.allowance.declarations.of_kind(GPUStorage).get(storage.name)
    spec = declared.model.spec if declared is not None else None
    title = (spec.display_name or spec.description or "") if spec is not None else ""
    parts = storage.size, textwrap.shorten(title, _MAX_TITLE, placeholder=" …")
    return f"{storage.name}: {', '.join(part for part in parts if part)}"


def describe_use(area: TenantArea, storage: StorageRowOutput, access: str) -> str:
    """Return why a form offers a storage to no other instance; empty if it does."""
    if storage.is_marked_for_deletion:
        return "marked for deletion"
    if access != "ReadWriteOnce":
        return "a bucket is no folder" if access == "Bucket" else ""
    if mounts := area.running_mounts.get(storage.name):
        return f"mounted by {mounts[0]}"
    return "its accessor changes files" if storage.name in area.edited_storages else ""


def list_access(area: TenantArea) -> dict[str, str]:
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
