"""Deployments, missing objects and synchronization messages of a cloud."""

from __future__ import annotations

from kubernetes.dynamic.exceptions import NotFoundError

from tests.controlplane.client import Client, Object
from tests.e2e.cloud import Cloud


def deployment(cloud: Cloud, tenant: str, name: str) -> Object:
    return cloud.clusters["eu-1"].client.get("apps/v1", "Deployment", name, f"t-{tenant}")


def missing(client: Client, api_version: str, kind: str, name: str, namespace: str | None = None) -> bool:
    try:
        client.get(api_version, kind, name, namespace)
    except NotFoundError:
        return True
    return False


def sync_messages(cloud: Cloud, application: str) -> str:
    """Return the messages of an Application's last sync, of all its resources."""
    status = cloud.applications()[application]["status"]
    results = status.get("operationState", {}).get("syncResult", {}).get("resources", ())
    return " ".join(str(result.get("message")) for result in results)
