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
        metadata.uid,
        metadata.name,
        metadata.tenant,
        metadata.labels.snapshot,
        metadata.annotations.blob,
        metadata.created,
        metadata.deletion_timestamp is not None,
        raw.spec.source.persistent_volume_claim_name,
        status.ready_to_use,
        time_of(status.creation_time),
        status.restore_size or "",
        status.error is not None,
        metadata.marked,
        metadata.unprotected,
    )
