"""Immutability: once a field is merged, it doesn't change if running instances or stored data rely on it."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import DeclarationFile
from allotment.declared.kinds.app import App
from allotment.declared.kinds.cluster import Cluster
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_spec import GPUSpec
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot
from allotment.declared.kinds.platform import Platform
from allotment.declared.kinds.storage_spec import StorageSpec
from allotment.declared.values import format_cpu, format_size
from allotment.preparation.sources import is_cloned_by_driver
from allotment.problems import Finding
from allotment.rules.folder_change import FolderChange, value_at

RULE = "immutable"

# Kind → (field in YAML, Python field below spec, remedy).
FIELDS: dict[type[Declaration], list[tuple[str, str, str]]] = {
    Platform: [
        ("spec.billing.currency", "billing.currency", "create a new platform"),
        ("spec.billing.timeZone", "billing.time_zone", "create a new platform"),
    ],
    GPUSpec: [
        (f"spec.{name}", python, "declare another GPUSpec, and retire the existing GPUSpec")
        for name, python in (
            ("gpu", "gpu"),
            ("cpu", "cpu"),
            ("memory", "memory"),
            ("disk", "disk"),
            ("sharing", "sharing"),
            ("tenancy", "tenancy"),
            ("capacityType", "capacity_type"),
        )
    ],
    StorageSpec: [
        ("spec.volume", "volume", "declare another StorageSpec, and retire the existing StorageSpec"),
        ("spec.bucket", "bucket", "declare another StorageSpec, and retire the existing StorageSpec"),
    ],
    GPUStorageSnapshot: [("spec.storage", "storage", "declare another snapshot")],
    GPUStorage: [
        ("spec.cluster", "cluster", "declare another storage there"),
        ("spec.storageSpec", "storage_spec", "declare another storage of that kind"),
    ],
}


def check(change: FolderChange) -> Iterator[Finding]:
    """Check the declarations that exist at the base and now."""
    for kind, fields in FIELDS.items():
        for old, new in change.common_declarations(kind):
            yield from _check_fields(old, new, fields)
    for old_app, new_app in change.common_declarations(App):
        yield from _check_versions(old_app, new_app)
    for old_cluster, new_cluster in change.common_declarations(Cluster):
        yield from _check_storage_classes(old_cluster, new_cluster)
    for old_storage, new_storage in change.common_declarations(GPUStorage):
        before, after = old_storage.model.spec.size, new_storage.model.spec.size
        if after < before:
            yield shrink_finding(new_storage.path, before, after)
        yield from _check_origin(change, old_storage, new_storage)


def _check_origin(
    change: FolderChange, old: DeclarationFile[GPUStorage], new: DeclarationFile[GPUStorage]
) -> Iterator[Finding]:
    """If the source of an existing volume changes, check that the driver clones neither the old nor the new source.

    The storage driver can clone a source only when it creates the volume. `prepare` may be removed.
    """
    before, after = old.model.spec.prepare, new.model.spec.prepare
    if after is None or (before is not None and before.source == after.source):
        return
    was_cloned = is_cloned_by_driver(change.catalog, change.before, old.model)
    is_cloned = is_cloned_by_driver(change.catalog, change.after, new.model)
    if was_cloned or is_cloned:
        message = (
            "a volume can be cloned only when it is created, and this volume exists already: declare another storage"
        )
        yield new.make_finding("spec.prepare.source", message, RULE)


def _check_fields(
    old: DeclarationFile[Declaration], new: DeclarationFile[Declaration], fields: list[tuple[str, str, str]]
) -> Iterator[Finding]:
    for field, python, instead in fields:
        before, after = value_at(old.model.spec, python), value_at(new.model.spec, python)
        if before != after:
            yield new.make_finding(
                field,
                f"{_display_value(field, after)} was {_display_value(field, before)} and can't change: {instead}",
                RULE,
            )


def _display_value(field: str, value: object) -> str:
    if value is None:
        return "nothing"
    if field == "spec.cpu" and isinstance(value, int):
        return format_cpu(value)
    if isinstance(value, int) and value >= 1024**2:
        return format_size(value)
    return f"'{value}'" if isinstance(value, (str, int)) else "this"


def _check_versions(old: DeclarationFile[App], new: DeclarationFile[App]) -> Iterator[Finding]:
    old_versions = {version.version: version for version in old.model.spec.versions}
    for index, version in enumerate(new.model.spec.versions):
        if version.version in old_versions and old_versions[version.version].container != version.container:
            message = f"the container of version {version.version} changed, and instances run it: add a version instead"
            yield new.make_finding(f"spec.versions.{index}.container", message, RULE)


def _check_storage_classes(old: DeclarationFile[Cluster], new: DeclarationFile[Cluster]) -> Iterator[Finding]:
    old_classes = {entry.storage_spec: entry.storage_class_name for entry in old.model.spec.storages}
    for index, entry in enumerate(new.model.spec.storages):
        before = old_classes.get(entry.storage_spec, entry.storage_class_name)
        if before != entry.storage_class_name:
            message = f"'{entry.storage_class_name}' was '{before}', and volumes can't change their class: declare another StorageSpec for it"
            yield new.make_finding(f"spec.storages.{index}.storageClassName", message, RULE)


def shrink_finding(path: str, old: int, new: int) -> Finding:
    """Return the finding about a storage that would shrink; sizes are in bytes."""
    message = f"{format_size(new)} is less than the current {format_size(old)}, and a volume can't shrink: write at least {format_size(old)}"
    return Finding(path, ("spec", "size"), message, "shrink")
