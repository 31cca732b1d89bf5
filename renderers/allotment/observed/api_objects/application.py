"""Argo CD's Applications: their state, and the objects that Argo CD has applied or failed to apply."""

from __future__ import annotations

from allotment.manifests import names
from allotment.observed.api_objects.base import ApiObject, Metadata
from allotment.observed.objects import Application


class _ArgoStatus(ApiObject, frozen=True):
    status: str = ""
    revision: str = ""


class _ResourceResult(ApiObject, frozen=True):
    kind: str = ""
    name: str = ""
    status: str = ""
    message: str = ""


class _SyncResult(ApiObject, frozen=True):
    resources: tuple[_ResourceResult, ...] | None = ()


class _Operation(ApiObject, frozen=True):
    phase: str = ""
    sync_result: _SyncResult | None = None


class _ApplicationStatus(ApiObject, frozen=True):
    sync: _ArgoStatus = _ArgoStatus()
    health: _ArgoStatus = _ArgoStatus()
    operation_state: _Operation | None = None
    resources: tuple[_ResourceResult, ...] | None = ()


class RawApplication(ApiObject, frozen=True):
    """An Application."""

    metadata: Metadata
    status: _ApplicationStatus = _ApplicationStatus()


def summarize_application(raw: RawApplication) -> Application:
    """Return the summary of an Application."""
    metadata, status, operation = raw.metadata, raw.status, raw.status.operation_state
    resources = status.resources or ()
    results = (operation.sync_result.resources or ()) if operation and operation.sync_result else ()
    return Application(
        uid=metadata.uid,
        name=metadata.name,
        tenant=metadata.get_label(names.TENANT),
        cluster=metadata.get_label(names.CLUSTER),
        sync=status.sync.status,
        health=status.health.status,
        revision=status.sync.revision,
        phase=operation.phase if operation else "",
        resources=frozenset((resource.kind, resource.name) for resource in resources),
        out_of_sync=frozenset(
            (resource.kind, resource.name) for resource in resources if resource.status == "OutOfSync"
        ),
        failed=frozenset((result.kind, result.name) for result in results if result.status == "SyncFailed"),
    )
