"""Sources: the source of a storage exists, is in the same cluster, and is not larger than the storage.

A storage can't be filled from itself, either directly or through other storages. The sizes are compared only if a change
adds the storage, or changes its preparation. Afterwards the source may grow, because the copy is made once: growth beyond the
size of a copy is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from allotment.declared.inventory import Catalog, DeclarationFile, ScopeDeclarations
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.reading import suggest_declared_name
from allotment.declared.values import format_size
from allotment.preparation.sources import is_bucket, is_cloned_by_driver, is_single_writer, own_source
from allotment.problems import Finding, quote_value
from allotment.rules.folder_change import FolderChange

RULE = "source"
MAX_SHOWN_STORAGES = 10  # a message names at most this many storages of a cycle


def check(catalog: Catalog, tenant: ScopeDeclarations) -> Iterator[Finding]:
    """Check the source of each of a tenant's storages, if the source belongs to the same tenant."""
    circles = _find_cycles(tenant)
    for name, storage in tenant.of_kind(GPUStorage).items():
        if storage.model.spec.prepare is None:
            continue
        yield from _check_named(tenant, storage)
        source = own_source(tenant, storage.model)
        if source is not None:
            yield from _check_fit(catalog, tenant, storage, source)
        if name in circles:
            yield from _check_cycle(tenant, storage, *circles[name])


def check_sizes(change: FolderChange) -> Iterator[Finding]:
    """Compare the size of each new storage, and of each storage with a changed preparation, with its source.

    For a copy that is declared already, warn if the source grows in the change. The declarations don't tell whether the copy
    is complete.
    """
    old_storages = change.before.of_kind(GPUStorage)
    for name, storage in change.after.of_kind(GPUStorage).items():
        source, preparation = own_source(change.after, storage.model), storage.model.spec.prepare
        if source is None or preparation is None or storage.model.spec.size >= source.model.spec.size:
            continue
        size, least = format_size(storage.model.spec.size), format_size(source.model.spec.size)
        old_source = old_storages.get(source.model.name)
        if name not in old_storages or old_storages[name].model.spec.prepare != preparation:
            message = f"{size} is less than the {least} of {source.model.name}, its source: write at least {least}"
            yield storage.make_finding("spec.size", message, RULE, related=(source.path,))
        elif storage.model.spec.deletion_policy == "Delete":
            continue
        elif preparation.source.storage and old_source and old_source.model.spec.size < source.model.spec.size:
            message = f"storage {name} is a copy of this storage, and has only {size}: if the copy is not Ready yet, grow {name} first"
            yield source.make_finding("spec.size", message, RULE, warning=True, related=(storage.path,))


def _source_field(storage: DeclarationFile[GPUStorage]) -> str:
    assert storage.model.spec.prepare is not None
    return f"spec.prepare.source.{storage.model.spec.prepare.source.chosen_member}.name"


def _check_named(tenant: ScopeDeclarations, storage: DeclarationFile[GPUStorage]) -> Iterator[Finding]:
    assert storage.model.spec.prepare is not None
    source = storage.model.spec.prepare.source
    where = f" in tenants/{tenant.name}"
    if source.storage is not None and source.storage.tenant in (None, tenant.name):
        name = source.storage.name
        if tenant.is_absent(GPUStorage, name):
            near = suggest_declared_name(name, tenant, GPUStorage, without=(storage.model.name,))
            yield storage.make_finding(
                _source_field(storage), f"no GPUStorage is named {quote_value(name)}{where}{near}", "reference"
            )


def _check_fit(
    catalog: Catalog,
    tenant: ScopeDeclarations,
    storage: DeclarationFile[GPUStorage],
    source: DeclarationFile[GPUStorage],
) -> Iterator[Finding]:
    here, source_spec = storage.model.spec, source.model.spec
    name, related = source.model.name, (source.path,)
    if source_spec.cluster != here.cluster:
        message = f"storage {name} is in cluster {source_spec.cluster}, and this storage is in {here.cluster}: use the same cluster for both"
        yield storage.make_finding(_source_field(storage), message, RULE, related=related)
        return
    if is_bucket(catalog, source.model):
        message = f"storage {name} is a bucket, which has no files to clone: name a volume"
        yield storage.make_finding(_source_field(storage), message, RULE, related=related)
        return
    assert here.prepare is not None
    if here.prepare.source.snapshot is not None and here.storage_spec != source_spec.storage_spec:
        message = f"the snapshot is of StorageSpec {source_spec.storage_spec}, and can be restored only into the same: replace {here.storage_spec}"
        yield storage.make_finding("spec.storageSpec", message, RULE, related=related)
    if is_single_writer(catalog, source.model) and not is_cloned_by_driver(catalog, tenant, storage.model):
        users = [
            instance.model.name
            for instance in tenant.of_kind(GPUInstance).values()
            if instance.model.spec.state == "Running" and instance.model.spec.mounts(name)
        ]
        if users:
            message = (
                f"storage {name} is ReadWriteOnce, and {users[0]} runs on it: the copy starts once {users[0]} stops"
            )
            yield storage.make_finding(_source_field(storage), message, RULE, warning=True, related=related)


def _find_cycles(tenant: ScopeDeclarations) -> dict[str, tuple[list[str], int]]:
    """Return the storages that are filled from themselves, each with its cycle and its position in the cycle.

    In a cycle, the name of a storage is followed by the name of its source. The search visits each storage once.
    """
    storages = tenant.of_kind(GPUStorage)
    circles: dict[str, tuple[list[str], int]] = {}
    visited_names: set[str] = set()
    for name in storages:
        way: dict[str, int] = {}
        storage_name: str | None = name
        while storage_name is not None and storage_name not in visited_names and storage_name not in way:
            way[storage_name] = len(way)
            source = own_source(tenant, storages[storage_name].model)
            storage_name = source.model.name if source is not None else None
        if storage_name in way:
            circle = list(way)[way[storage_name] :]
            circles |= {each: (circle, place) for place, each in enumerate(circle)}
        visited_names |= way.keys()
    return circles


def _check_cycle(
    tenant: ScopeDeclarations, storage: DeclarationFile[GPUStorage], circle: list[str], place: int
) -> Iterator[Finding]:
    name, more = storage.model.name, len(circle) - MAX_SHOWN_STORAGES
    way = [circle[(place + step) % len(circle)] for step in range(min(MAX_SHOWN_STORAGES, len(circle)))]
    shown_names = [*way, f"… {more:,} more", name] if more > 0 else [*way, name]
    source_text = "itself" if len(circle) == 1 else f"itself in a circle: {' ← '.join(shown_names)}"
    related = tuple(tenant.of_kind(GPUStorage)[member].path for member in way[1:])
    yield storage.make_finding(
        _source_field(storage), f"the storage is filled from {source_text}", RULE, related=related
    )
