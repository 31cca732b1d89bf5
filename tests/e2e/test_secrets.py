"""The API server keeps the ExternalSecrets of a tenant below the tenant's own path. Nothing is created."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from allotment.manifests import names
from tests.conftest import copy_sample
from tests.controlplane import rendered
from tests.controlplane.client import Object, refusal
from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import eventually
from tests.e2e.conftest import Render
from tests.support.secret_store import declare_image_pull

pytestmark = pytest.mark.e2e
SPACE, OTHER = names.namespace("studio-kite"), names.namespace("film-house")
STORE = "reads only the secret store that the cluster declares"
PATH = "reads only below the tenant's own path"
SOURCE = "has no dataFrom, and a pull credential has one key"
TEMPLATE = "has no template, except the type of a pull credential"
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
        (reference(target={"name": "key--secret", "template": {"type": "Opaque"}}), TEMPLATE),
        (reference(target={"name": "datasets"}), TARGET),
    ],
)
def test_anything_else_is_refused(manifest: Object, why: str, sample_cluster: Cluster) -> None:
    message = words(sample_cluster, manifest)
    assert message is not None
    assert why in message


PULL = {"type": "kubernetes.io/dockerconfigjson", "engineVersion": "v2", "mergePolicy": "Replace"}
ADMISSION = "platform/cluster/admission.rendered.yaml"


def pull(
    name: str, key: str, more: Object | None = None, secret_key: str = ".dockerconfigjson", **field: str
) -> Object:
    """Return an ExternalSecret for a pull credential; `more` replaces fields of its template."""
    target = {"name": name, "creationPolicy": "Owner", "template": {**PULL, **(more or {})}}
    manifest = reference(target=target, data=[{"secretKey": secret_key, "remoteRef": {"key": key, **field}}])
    manifest["metadata"]["name"] = name
    return manifest


@pytest.fixture(scope="module")
def pull_tree(render: Render, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the sample's tree for eu-1 with pull credentials of solo-ada and of the platform."""
    root = tmp_path_factory.mktemp("pull")
    copy_sample(root)
    declare_image_pull(root)
    return render(root, "eu-1")


@pytest.fixture(scope="module")
def pull_cluster(sample_cluster: Cluster, sample_tree: Path, pull_tree: Path) -> Iterator[Cluster]:
    """Return the cluster with the sample, whose policy permits the platform's pull credential."""
    platform, client = pull("image-pull--platform", "platform/registry", property="config"), sample_cluster.client
    client.apply(*rendered.objects(pull_tree, ADMISSION))
    eventually(lambda: words(sample_cluster, platform) is None, "the policy to permit the platform's credential", 60)
    yield sample_cluster
    client.apply(*rendered.objects(sample_tree, ADMISSION))
    eventually(lambda: words(sample_cluster, platform) is not None, "the policy of the sample", 60)


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
    (pod,) = pull_cluster.client.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dry_run=True
    )
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry--image-pull"}, {"name": "image-pull--platform"}]
    pull_cluster.client.delete("v1", "ServiceAccount", names.SERVICE_ACCOUNT, space)
