"""GPUStorageSnapshot: a point-in-time copy of a storage."""

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.references import SnapshotOf


class GPUStorageSnapshotSpec(Spec):
    """The storage to copy. The snapshot is taken when its manifest first reaches the cluster."""

    storage: SnapshotOf = Field(
        description="The name of a GPUStorage of this tenant. It can't be deleted while the snapshot exists. Immutable."
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Delete: the snapshot may be deleted. Data is deleted in two merges: the first sets Delete, the"
        " second removes the file.",
    )


class GPUStorageSnapshot(Declaration):
    """A point-in-time copy of a storage in the same cluster. `prepare.source.snapshot` restores it into another storage.

    The cost of a snapshot is the price in `snapshotPrices` of the StorageSpec, multiplied by the size of the storage.
    The deletion of a snapshot takes two merges: the first sets `deletionPolicy: Delete`, the second removes the file.
    """

    kind: Literal["GPUStorageSnapshot"]
    spec: GPUStorageSnapshotSpec
