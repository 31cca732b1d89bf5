"""The API server keeps the ExternalSecrets of a tenant below the tenant's own path. Nothing is created."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.manifests import names
from tests.controlplane import rendered
from tests.controlplane.client import Object
from tests.controlplane.cluster import Cluster
from tests.support.secret_cluster import OTHER, PATH, pull, pull_cluster, pull_tree, reference, words
from tests.support.waiting import eventually

__all__ = ["pull_cluster", "pull_tree"]  # fixtures

pytestmark = pytest.mark.e2e
STORE = "reads only the secret store that the cluster declares"
SOURCE = "has no dataFrom, and a pull credential has one key"
TEMPLATE = "has no template, except the type of a pull credential"
TARGET = "writes only the Secret with its own name"


def in_namespace(space: str) -> Object:
    """Return the ExternalSecret in the namespace of another tenant."""
    manifest = reference()
    manifest["metadata"]["namespace"] = space
    return manifest


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
        (reference(target={"name": "key--secret", "template": {"type": "Opaque"}}), TEMPLATE),
        (reference(target={"name": "datasets"}), TARGET),
    ],
)
def test_anything_else_is_refused(manifest: Object, why: str, sample_cluster: Cluster) -> None:
    message = words(sample_cluster, manifest)
    assert message is not None
    assert why in message


def test_a_pull_credential_of_the_tenant_is_accepted(pull_cluster: Cluster) -> None:
    assert words(pull_cluster, pull("key--image-pull", "tenants/studio-kite/registry")) is None


OWN = ("key--image-pull", "tenants/studio-kite/registry")
PLATFORM = ("image-pull--platform", "platform/registry")


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (pull(*OWN, {"type": "kubernetes.io/service-account-token"}), TEMPLATE),
        (pull(*OWN, {"data": {".dockerconfigjson": "{}"}}), TEMPLATE),
        (pull(*OWN, {"metadata": {"labels": {"x": "y"}}}), TEMPLATE),
        (pull(*OWN, {"templateFrom": [{"literal": "x"}]}), TEMPLATE),
        (pull(*OWN, {"mergePolicy": "Merge"}), TEMPLATE),
        (pull(*OWN, secret_key="token"), SOURCE),
        (pull("key--secret", "tenants/studio-kite/registry"), TEMPLATE),
        (pull("key--image-pull", "tenants/film-house/registry"), PATH),
        (pull("key--image-pull", "platform/registry", property="config"), PATH),
        (pull("other", "tenants/studio-kite/registry"), TARGET),
        (pull("image-pull--platform", "platform/root", property="config"), PATH),
        (pull("image-pull--platform", "tenants/studio-kite/registry", property="config"), PATH),
        (pull(*PLATFORM, property="root"), PATH),
        (pull(*PLATFORM), PATH),
        (pull(*PLATFORM, {"type": "Opaque"}, property="config"), TEMPLATE),
    ],
)
def test_any_other_pull_credential_is_refused(manifest: Object, why: str, pull_cluster: Cluster) -> None:
    message = words(pull_cluster, manifest)
    assert message is not None
    assert why in message


def test_a_pod_gets_the_pull_credentials_when_it_is_created(pull_cluster: Cluster, pull_tree: Path) -> None:
    space = names.namespace("solo-ada")
    objects = rendered.objects(pull_tree, "control/namespaces/s/solo-ada.rendered.yaml")
    pull_cluster.client.apply(*(each for each in objects if each["kind"] == "ServiceAccount"))
    secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    spec = {
        "automountServiceAccountToken": False,
        "priorityClassName": names.INSTANCE_PRIORITY,
        "hostUsers": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": True, "runAsUser": 1000},
        "containers": [{"name": "main", "image": "registry.example/web:1", "securityContext": secure}],
    }
    metadata = {"name": "pulls", "namespace": space}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def find_pull_secrets() -> list[Object] | None:
        (pod,) = pull_cluster.client.apply(manifest, dry_run=True)
        pull_secrets: list[Object] | None = pod["spec"].get("imagePullSecrets")
        return pull_secrets

    # The API server reads the ServiceAccount from a cache, which may be older.
    pull_secrets = eventually(find_pull_secrets, "a pod to get the credentials of its ServiceAccount", 30)
    assert pull_secrets == [{"name": "registry--image-pull"}, {"name": "image-pull--platform"}]
    pull_cluster.client.delete("v1", "ServiceAccount", names.SERVICE_ACCOUNT, space)
