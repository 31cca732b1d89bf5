"""VolumeSnapshots: the snapshots of storages."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata, normalize_time
from allotment.observed.objects import VolumeSnapshot


class _Source(ApiObject, frozen=True):
    persistent_volume_claim_name: str = ""


class _Spec(ApiObject, frozen=True):
    source: _Source = _Source()


class _Error(ApiObject, frozen=True):
    time: str | None = None


class _Status(ApiObject, frozen=True):
    ready_to_use: bool = False
    creation_time: str | None = None
    restore_size: str | None = None
    error: _Error | None = None


class RawVolumeSnapshot(ApiObject, frozen=True):
    """A VolumeSnapshot."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None


def summarize_volume_snapshot(raw: RawVolumeSnapshot) -> VolumeSnapshot:
    """Return the summary of a VolumeSnapshot."""
    metadata, status = raw.metadata, raw.status or _Status()
    return VolumeSnapshot(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        snapshot=metadata.get_label(names.SNAPSHOT),
        storage_spec=metadata.get_label(names.STORAGE_SPEC),
        bill_labels=metadata.bill_labels,
        blob=metadata.annotations.blob,
        created=metadata.created,
        terminating=metadata.deletion_timestamp is not None,
        source_claim=raw.spec.source.persistent_volume_claim_name,
        ready=status.ready_to_use,
        taken_at=normalize_time(status.creation_time),
        restore_size=status.restore_size or "",
        failed=status.error is not None,
        marked_for_deletion=metadata.marked_for_deletion,
        unprotected=metadata.unprotected,
    )
