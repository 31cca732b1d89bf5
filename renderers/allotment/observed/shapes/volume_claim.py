"""PersistentVolumeClaims: the volumes of storages."""

from __future__ import annotations

from allotment.observed.objects import VolumeClaim
from allotment.observed.shapes.base import Metadata, ObjectCondition, Shape


class _Sizes(Shape, frozen=True):
    storage: str = ""


class _Resources(Shape, frozen=True):
    requests: _Sizes = _Sizes()


class _ClaimSpec(Shape, frozen=True):
    resources: _Resources = _Resources()
    volume_name: str = ""


class _ClaimStatus(Shape, frozen=True):
    phase: str = ""
    capacity: _Sizes = _Sizes()
    conditions: tuple[ObjectCondition, ...] = ()


class RawVolumeClaim(Shape, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


def volume_claim(raw: RawVolumeClaim) -> VolumeClaim:
    """Return what is kept of a PersistentVolumeClaim."""
    metadata = raw.metadata
    return VolumeClaim(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        storage=metadata.labels.storage,
        blob=metadata.annotations.blob,
        created=metadata.created,
        ending=metadata.deletion_timestamp is not None,
        phase=raw.status.phase,
        requested=raw.spec.resources.requests.storage,
        capacity=raw.status.capacity.storage,
        prepares=metadata.annotations.prepares,
        marked=metadata.marked,
        unprotected=metadata.unprotected,
    )
