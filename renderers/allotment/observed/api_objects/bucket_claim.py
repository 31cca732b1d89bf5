"""ObjectBucketClaims: the buckets of storages."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import BucketClaim


class _Config(ApiObject, frozen=True):
    max_size: str = ""


class _Spec(ApiObject, frozen=True):
    additional_config: _Config = _Config()


class _Status(ApiObject, frozen=True):
    phase: str = ""


class RawBucketClaim(ApiObject, frozen=True):
    """An ObjectBucketClaim."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None


def summarize_bucket_claim(raw: RawBucketClaim) -> BucketClaim:
    """Return the summary of an ObjectBucketClaim."""
    metadata = raw.metadata
    return BucketClaim(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        storage=metadata.get_label(names.STORAGE),
        storage_spec=metadata.get_label(names.STORAGE_SPEC),
        bill_labels=metadata.bill_labels,
        blob=metadata.annotations.blob,
        created=metadata.created,
        phase=raw.status.phase if raw.status else "",
        size=raw.spec.additional_config.max_size,
        marked_for_deletion=metadata.marked_for_deletion,
        unprotected=metadata.unprotected,
    )
