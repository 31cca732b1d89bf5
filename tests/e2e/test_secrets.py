"""The API server keeps the ExternalSecrets of a tenant below the tenant's own path. Nothing is created."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from allotment.manifests import names
from tests.controlplane.client import Object, refusal
from tests.controlplane.cluster import Cluster

pytestmark = pytest.mark.e2e
SPACE, OTHER = names.namespace("studio-kite"), names.namespace("film-house")
STORE = "reads only the secret store that the cluster declares"
PATH = "reads only below the tenant's own path"
SOURCE = "has neither dataFrom nor a template"
TARGET = "writes only the Secret with its own name"


def reference(key: str = "tenants/studio-kite/huggingface", **more: Any) -> Object:
    """Return an ExternalSecret that the namespace takes; `more` replaces fields of its spec."""
    spec: Object = {
        "secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"},
        "refreshInterval": "1h0m0s",
        "target": {"name": "key--secret", "creationPolicy": "Owner", "deletionPolicy": "Retain"},
        "data": [{"secretKey": "token", "remoteRef": {"key": key}}],
    }
    metadata = {"name": "key--secret", "namespace": SPACE}
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": metadata,
        "spec": {**spec, **more},
    }


def in_namespace(space: str) -> Object:
    """Return the ExternalSecret in the namespace of another tenant."""
    manifest = reference()
    manifest["metadata"]["namespace"] = space
    return manifest


def words(cluster: Cluster, manifest: Object) -> str | None:
    """Return the reason why an object is refused; None when it is accepted."""
    return refusal(cluster.client.apply, deepcopy(manifest), dry_run=True)


def test_a_path_of_the_tenant_is_accepted(sample_cluster: Cluster) -> None:
    assert words(sample_cluster, reference()) is None


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (reference("tenants/film-house/huggingface"), PATH),
        (reference("tenants/studio-kite-2/huggingface"), PATH),
        (reference("tenants/studio-kite/../film-house/huggingface"), PATH),
        (reference("tenants/studio-kite//huggingface"), PATH),
        (reference("platform/registry"), PATH),
        (in_namespace(OTHER), PATH),
        (reference(secretStoreRef={"kind": "ClusterSecretStore", "name": "platform"}), STORE),
        (reference(secretStoreRef={"kind": "SecretStore", "name": "vault"}), STORE),
        (reference(dataFrom=[{"extract": {"key": "tenants/film-house/huggingface"}}]), SOURCE),
        (reference(target={"name": "key--secret", "template": {"type": "Opaque"}}), SOURCE),
        (reference(target={"name": "datasets"}), TARGET),
    ],
)
def test_anything_else_is_refused(manifest: Object, why: str, sample_cluster: Cluster) -> None:
    message = words(sample_cluster, manifest)
    assert message is not None
    assert why in message
