"""ReplicaSets: which rollout of a Deployment a pod is of."""

from __future__ import annotations

from allotment.observed.objects import ReplicaSet
from allotment.observed.shapes.base import Metadata, Shape


class RawReplicaSet(Shape, frozen=True):
    """A ReplicaSet: its metadata is all that is asked for."""

    metadata: Metadata


def replica_set(raw: RawReplicaSet) -> ReplicaSet:
    """Return what is kept of a ReplicaSet."""
    metadata = raw.metadata
    return ReplicaSet(metadata.uid, metadata.name, metadata.owner, metadata.tenant, metadata.annotations.revision)
