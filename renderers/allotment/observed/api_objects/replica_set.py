"""ReplicaSets: which rollout of a Deployment a pod is of."""

from __future__ import annotations

from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import ReplicaSet


class RawReplicaSet(ApiObject, frozen=True):
    """A ReplicaSet: its metadata is all that is asked for."""

    metadata: Metadata


def summarize_replica_set(raw: RawReplicaSet) -> ReplicaSet:
    """Return what is kept of a ReplicaSet."""
    metadata = raw.metadata
    return ReplicaSet(metadata.uid, metadata.name, metadata.owner, metadata.tenant, metadata.annotations.revision)
