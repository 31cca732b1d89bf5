"""Argo CD's Applications: what is applied, and what isn't."""

from __future__ import annotations

from allotment.observed.objects import Application
from allotment.observed.shapes.base import Metadata, Shape


class _Said(Shape, frozen=True):
    status: str = ""
    revision: str = ""


class _Resource(Shape, frozen=True):
    kind: str = ""
    name: str = ""
    status: str = ""
    message: str = ""


class _SyncResult(Shape, frozen=True):
    resources: tuple[_Resource, ...] | None = ()


class _Operation(Shape, frozen=True):
    phase: str = ""
    sync_result: _SyncResult | None = None


class _ApplicationStatus(Shape, frozen=True):
    sync: _Said = _Said()
    health: _Said = _Said()
    operation_state: _Operation | None = None
    resources: tuple[_Resource, ...] | None = ()


class RawApplication(Shape, frozen=True):
    """An Application."""

    metadata: Metadata
    status: _ApplicationStatus = _ApplicationStatus()


def application(raw: RawApplication) -> Application:
    """Return what is kept of an Application."""
    metadata, status, operation = raw.metadata, raw.status, raw.status.operation_state
    resources = status.resources or ()
    results = (operation.sync_result.resources or ()) if operation and operation.sync_result else ()
    return Application(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.labels.tenant,
        cluster=metadata.labels.cluster,
        sync=status.sync.status,
        health=status.health.status,
        revision=status.sync.revision,
        phase=operation.phase if operation else "",
        resources=frozenset((resource.kind, resource.name) for resource in resources),
        differing=frozenset((resource.kind, resource.name) for resource in resources if resource.status == "OutOfSync"),
        failed=frozenset((result.kind, result.name) for result in results if result.status == "SyncFailed"),
    )
