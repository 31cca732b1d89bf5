"""Published objects that outlive their declaration, and the status that they give."""

from __future__ import annotations

from typing import Any

from allotment.observed.orphans import PublishedObjects
from allotment.observed.status import (
    TenantStatus,
)
from allotment.observed.tenants import TenantObjects
from allotment.observed.tenants import derive_tenant_status as observe
from tests.support import live

DEPLOYMENT, ROUTE = ("Deployment", "webui"), ("HTTPRoute", "webui")
CLAIM, BUCKET, SNAPSHOT = ("PersistentVolumeClaim", "models"), ("ObjectBucketClaim", "data"), ("VolumeSnapshot", "keep")
ARGOCD = (live.application(), live.application("storage"))
REFRESH = "ask the platform team to refresh Application solo-ada--eu-1--{}"
SINCE = "2026-11-21T10:01:00Z"


def at(seconds: int) -> str:
    """Return the time so many seconds after the removal was seen."""
    return f"2026-11-21T10:{1 + seconds // 60:02d}:{seconds % 60:02d}Z"


def published(*objects: tuple[str, str], time: str = SINCE) -> PublishedObjects:
    return PublishedObjects(frozenset(objects), time)


def look(
    *objects: dict[str, Any],
    before: TenantStatus | None = None,
    seconds: int = 0,
    published_objects: PublishedObjects | None = None,
) -> TenantStatus:
    return observe(
        live.TENANT,
        "eu-1",
        TenantObjects.from_objects(live.seen(*objects)),
        previous=before,
        now=at(seconds),
        sources=None,
        published=published_objects,
    )


def after(seconds: int, *objects: dict[str, Any], published_objects: PublishedObjects) -> TenantStatus:
    """Return what is said so many seconds after the removal was seen first."""
    return look(
        *objects,
        before=look(*objects, published_objects=published_objects),
        seconds=seconds,
        published_objects=published_objects,
    )


def accessor() -> dict[str, Any]:
    deployment = live.deployment("models--files")
    deployment["metadata"]["labels"] = {
        "allotment.dev/tenant": live.TENANT,
        "allotment.dev/storage": "models",
    }
    return deployment
