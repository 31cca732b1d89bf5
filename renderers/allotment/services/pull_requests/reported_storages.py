"""Compares a change with the last reported storages: a volume that returns never shrinks, and a mount waits for its storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from allotment import conditions as word
from allotment.adapters.git.commit_source import CommitSource, TreeSource
from allotment.adapters.git.repository import Repository
from allotment.branches.declared_resources import read_declaration_at
from allotment.branches.platform_settings import has_status_at_origin, read_reporter_keys
from allotment.branches.status_reader import read_cached_storages
from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.layout import Scope, path_of
from allotment.declared.tenant_resources import INSTANCE, STORAGE
from allotment.declared.values import format_size
from allotment.diff.change_plan import ResourceChange
from allotment.observed.quantity import parse_quantity
from allotment.observed.status import Storage
from allotment.problems import Finding
from allotment.rules.immutability import shrink_finding

# Takes a cluster and a tenant; returns the reported versions of each storage.
ReadStorages = Callable[[str, str], Mapping[str, Sequence[Storage]]]


def create_storage_reader(repository: Repository, base: CommitSource) -> ReadStorages:
    """Return a function that reads a tenant's storages from the last fetched status of a cluster."""
    keys, is_at_origin = read_reporter_keys(base), has_status_at_origin(base)
    return cache(
        lambda cluster, tenant: read_cached_storages(
            repository, cluster, keys.get(cluster), tenant, is_at_origin=is_at_origin
        )
    )


def check_returning_volumes(
    changes: Iterable[ResourceChange], after: TreeSource, read_storages: ReadStorages
) -> Iterator[Finding]:
    """Yield a finding for each new storage that a cluster has a volume of: an error if it is smaller, else a warning."""
    for change in changes:
        if (change.kind, change.action) != (STORAGE.word, "added"):
            continue
        versions = read_storages(change.cluster, change.tenant).get(change.name, ())
        size = max((int(parse_quantity(version.size)) for version in versions if version.claim), default=None)
        path = path_of(STORAGE.kind.name, Scope("tenant", change.tenant), change.name)
        declared = _read_model(after, path)
        if size is None or not isinstance(declared, GPUStorage):
            continue
        if declared.spec.size < size:
            yield shrink_finding(path, size, declared.spec.size)
        else:
            message = f"{change.cluster} still has the volume of the deleted storage {change.name}, with {format_size(size)}: it stays, with its data"
            yield Finding(path, ("metadata", "name"), message, "deletion", warning=True)


def check_waiting_mounts(
    changes: Iterable[ResourceChange], trees: tuple[TreeSource, TreeSource], read_storages: ReadStorages
) -> Iterator[Finding]:
    """Yield a warning for each storage that a running instance newly mounts, and that is reported as not prepared.

    `trees` are the declarations before and after the changes.
    """
    before, after = trees
    for change in changes:
        if change.kind != INSTANCE.word or change.action == "removed":
            continue
        scope = Scope("tenant", change.tenant)
        path = path_of(INSTANCE.kind.name, scope, change.name)
        if before.blob(path) == after.blob(path):
            continue
        instance = _read_model(after, path)
        if not isinstance(instance, GPUInstance) or instance.spec.state != "Running":
            continue
        old = _read_model(before, path)
        for index, mount in enumerate(instance.spec.storages):
            if isinstance(old, GPUInstance) and old.spec.state == "Running" and old.spec.mounts(mount.name):
                continue
            versions = read_storages(change.cluster, change.tenant).get(mount.name, ())
            storage = _read_model(after, path_of(STORAGE.kind.name, scope, mount.name))
            is_prepared = isinstance(storage, GPUStorage) and storage.spec.prepare is not None
            if is_prepared and versions and all(map(_is_unprepared, versions)):
                message = f"storage {mount.name} is {versions[-1].state} in {change.cluster}: the instance doesn't run until the storage is prepared"
                yield Finding(path, ("spec", "storages", index, "name"), message, "preparation", warning=True)


def _read_model(tree: TreeSource, path: str) -> Declaration | None:
    declared = read_declaration_at(tree, path)
    return declared.model if declared is not None else None


def _is_unprepared(storage: Storage) -> bool:
    if storage.prepare is not None:
        return storage.prepare.state != word.SUCCEEDED
    return storage.reason in (word.SOURCE_UNPREPARED, word.PREPARATION_PENDING)
