"""Lists the declarations of a tenant that name a storage, so that the storage can't be removed before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.declared.kinds.declaration import Declaration
from allotment.declared.kinds.gpu_instance import GPUInstance
from allotment.declared.kinds.gpu_storage import GPUStorage
from allotment.declared.kinds.gpu_storage_snapshot import GPUStorageSnapshot


class StorageUse(NamedTuple):
    """A declaration that names a storage, such as `instance webui`, and the step that ends the use."""

    subject: str
    remedy: str


def list_storage_uses(tenant: str, storage: str, declarations: Iterable[Declaration]) -> Iterator[StorageUse]:
    """Yield the declarations of a tenant that name one of its storages."""
    for each in declarations:
        if isinstance(each, GPUInstance):
            if each.spec.mounts(storage) or any(bucket.name == storage for bucket in each.spec.buckets):
                field = "storages" if each.spec.mounts(storage) else "buckets"
                yield StorageUse(
                    f"instance {each.name}", f"run `allot set instance/{tenant}/{each.name} {field}.{storage}-`"
                )
        elif isinstance(each, GPUStorageSnapshot):
            if each.spec.storage == storage:
                yield StorageUse(f"snapshot {each.name}", "delete the snapshot")
        elif isinstance(each, GPUStorage):
            source = each.spec.prepare.source.storage if each.spec.prepare is not None else None
            if source is not None and source.name == storage and source.tenant in (None, tenant):
                yield StorageUse(f"storage {each.name}", f"run `allot set storage/{tenant}/{each.name} prepare-`")
