"""Lists the declarations of a tenant that name a storage or snapshot, so that it can't be removed before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot


class StorageUse(NamedTuple):
    """A declaration that names a storage or snapshot, such as `instance webui`, and the step that ends the use."""

    subject: str
    remedy: str


def list_storage_uses(tenant: str, storage: str, declarations: Iterable[Declaration]) -> Iterator[StorageUse]:
    """Yield the declarations of a tenant that name one of its storages."""
    for each in declarations:
        if isinstance(each, GPUInstance):
            if each.spec.mounts(storage) or any(bucket.name == storage for bucket in each.spec.buckets):
                command = (
                    f"allot instance unmount {tenant}/{each.name} {storage}"
                    if each.spec.mounts(storage)
                    else f"allot set instance/{tenant}/{each.name} buckets.{storage}-"
                )
                yield StorageUse(f"instance {each.name}", f"run `{command}`")
        elif isinstance(each, GPUStorageSnapshot):
            if each.spec.storage == storage:
                command = f"allot storage delete {tenant}/{storage} --snapshot {each.name}"
                yield StorageUse(f"snapshot {each.name}", f"delete the snapshot with `{command}`")
        elif isinstance(each, GPUStorage):
            source = each.spec.prepare.source.storage if each.spec.prepare is not None else None
            if source is not None and source.name == storage and source.tenant in (None, tenant):
                yield _describe_copy(tenant, each)


def list_snapshot_uses(tenant: str, snapshot: str, storages: Iterable[GPUStorage]) -> Iterator[StorageUse]:
    """Yield the storages of a tenant that are filled from one of its snapshots."""
    for storage in storages:
        source = storage.spec.prepare.source.snapshot if storage.spec.prepare is not None else None
        if source is not None and source.name == snapshot:
            yield _describe_copy(tenant, storage)


def _describe_copy(tenant: str, storage: GPUStorage) -> StorageUse:
    return StorageUse(
        f"storage {storage.name}", f"run `allot set storage/{tenant}/{storage.name} prepare-` once it is Ready"
    )
