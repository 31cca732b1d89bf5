"""ObjectBucketClaims: the buckets of storages."""

from __future__ import annotations

from allotment.observed.objects import BucketClaim
from allotment.observed.shapes.base import Metadata, Shape


class _Config(Shape, frozen=True):
    max_size: str = ""


class _Spec(Shape, frozen=True):
    additional_config: _Config = _Config()


class _Status(Shape, frozen=True):
    phase: str = ""


class RawBucketClaim(Shape, frozen=True):
    """An ObjectBucketClaim."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status | None = None


def bucket_claim(raw: RawBucketClaim) -> BucketClaim:
    """Return what is kept of an ObjectBucketClaim."""
    metadata = raw.metadata
    return BucketClaim(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.tenant,
        storage=metadata.labels.storage,
        blob=metadata.annotations.blob,
        created=metadata.created,
        phase=raw.status.phase if raw.status else "",
        size=raw.spec.additional_config.max_size,
        marked=metadata.marked,
        unprotected=metadata.unprotected,
    )
