"""GPUStorageSnapshot: a storage as it was at one moment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from allotment.declared.kinds.declaration import Declaration, Spec
from allotment.declared.references import SnapshotOf


class GPUStorageSnapshotSpec(Spec):
    """Of which storage. The moment is that at which the cluster first sees it."""

    storage: SnapshotOf = Field(
        description="The GPUStorage, of this tenant. It stays while the snapshot exists. Immutable."
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description="Delete is the first of the two merges that delete data; removing the file is the second.",
    )


class GPUStorageSnapshot(Declaration):
    """A storage as it was at one moment, in the storage's cluster; `prepare.source.snapshot` restores it into another.

    It costs its StorageSpec's snapshotPrices for the storage's size, and is deleted in two merges.
    """

    kind: Literal["GPUStorageSnapshot"]
    spec: GPUStorageSnapshotSpec
