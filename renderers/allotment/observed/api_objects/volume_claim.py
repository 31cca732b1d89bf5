"""PersistentVolumeClaims: the volumes of storages."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata, ObjectCondition
from allotment.observed.objects import VolumeClaim


class _Sizes(ApiObject, frozen=True):
    storage: str = ""


class _Resources(ApiObject, frozen=True):
    requests: _Sizes = _Sizes()


class _ClaimSpec(ApiObject, frozen=True):
    resources: _Resources = _Resources()
    volume_name: str = ""


class _ClaimStatus(ApiObject, frozen=True):
    phase: str = ""
    capacity: _Sizes = _Sizes()
    conditions: tuple[ObjectCondition, ...] = ()


class RawVolumeClaim(ApiObject, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: Metadata
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


def summarize_volume_claim(raw: RawVolumeClaim) -> VolumeClaim:
    """Return the summary of a PersistentVolumeClaim."""
    metadata = raw.metadata
    return VolumeClaim(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        storage=metadata.get_label(names.STORAGE),
        storage_spec=metadata.get_label(names.STORAGE_SPEC),
        bill_labels=metadata.bill_labels,
        blob=metadata.annotations.blob,
        created=metadata.created,
        terminating=metadata.deletion_timestamp is not None,
        phase=raw.status.phase,
        requested=raw.spec.resources.requests.storage,
        capacity=raw.status.capacity.storage,
        preparation_job=metadata.annotations.prepares,
        marked_for_deletion=metadata.marked_for_deletion,
        unprotected=metadata.unprotected,
    )
