"""ReplicaSets. Each ReplicaSet owns the pods of one rollout of a Deployment."""

from __future__ import annotations

from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import ReplicaSet


class RawReplicaSet(ApiObject, frozen=True):
    """A ReplicaSet. Only its metadata is needed."""

    metadata: Metadata


def summarize_replica_set(raw: RawReplicaSet) -> ReplicaSet:
    """Return the summary of a ReplicaSet."""
    metadata = raw.metadata
    return ReplicaSet(metadata.uid, metadata.name, metadata.owner, metadata.tenant, metadata.annotations.revision)
