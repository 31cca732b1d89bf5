"""VolumeSnapshots: storages as they were at one moment."""

from __future__ import annotations

from allotment.observed.objects import VolumeSnapshot
from allotment.observed.shapes.base import Metadata, Shape, time_of


class _Source(Shape, frozen=True):
    persistent_volume_claim_name: str = ""


class _Spec(Shape, frozen=True):
    source: _Source = _Source()


class _Error(Shape, frozen=True):
    time: str | None = None


class _Status(Shape, frozen=True):
    ready_to_use: bool = False
    creation_time: str | None = None
    restore_size: str | None = None
    error: _Error | None = None


class RawVolumeSnapshot(Shape, frozen=True):
    """A VolumeSnapshot."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None


def volume_snapshot(raw: RawVolumeSnapshot) -> VolumeSnapshot:
    """Return what is kept of a VolumeSnapshot."""
    metadata, status = raw.metadata, raw.status or _Status()
    return VolumeSnapshot(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        snapshot=metadata.labels.snapshot,
        blob=metadata.annotations.blob,
        created=metadata.created,
        ending=metadata.deletion_timestamp is not None,
        of=raw.spec.source.persistent_volume_claim_name,
        ready=status.ready_to_use,
        taken=time_of(status.creation_time),
        restore_size=status.restore_size or "",
        failed=status.error is not None,
        marked=metadata.marked,
        unprotected=metadata.unprotected,
    )
