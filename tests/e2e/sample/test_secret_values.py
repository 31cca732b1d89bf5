"""External Secrets Operator gives a tenant the values below its own path of the store, and no others."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

from allotment.manifests import names
from tests.controlplane import external_secrets, rendered
from tests.controlplane.client import Object, refusal
from tests.controlplane.cluster import Cluster
from tests.controlplane.external_secrets import API
from tests.controlplane.fixtures import needs
from tests.support.secret_cluster import PATH, SPACE, pull_cluster, pull_tree, reference
from tests.support.waiting import eventually

__all__ = ["pull_cluster", "pull_tree"]  # fixtures

pytestmark = pytest.mark.e2e
DECLARED = "huggingface--secret"  # of the sample's tenant ml-orbit
ML_ORBIT = names.namespace("ml-orbit")
STORE = "vault"  # as clusters/eu-1 declares it
PLATFORM_CONFIG = '{"auths": {"platform.example": {"auth": "YTpi"}}}'
VALUES = {
    "tenants/ml-orbit/huggingface": json.dumps({"token": "hf-ml-orbit", "unused": "unused-ml-orbit"}),
    "tenants/ml-orbit/other": "other-ml-orbit",
    "tenants/studio-kite/huggingface": "hf-studio-kite",
    "tenants/solo-ada/registry": '{"auths": {"registry.example": {"auth": "{{ .token }}"}}}',
    "platform/registry": json.dumps({"config": PLATFORM_CONFIG, "root": "registry-platform"}),
}


@pytest.fixture(scope="module")
def operated(sample_cluster: Cluster) -> Iterator[Cluster]:
    """Return the cluster with the sample, in which the operator reads VALUES."""
    needs("external-secrets")
    with external_secrets.running(sample_cluster, external_secrets.store(STORE, VALUES)):
        yield sample_cluster


@pytest.fixture(autouse=True)
def initial_values(operated: Cluster) -> Iterator[None]:
    """Restore the store's values after a test."""
    yield
    operated.client.apply(external_secrets.store(STORE, VALUES))


def secret(cluster: Cluster, name: str, namespace: str) -> Object | None:
    """Return a Secret, or None when the namespace has none of this name."""
    try:
        return cluster.client.get("v1", "Secret", name, namespace)
    except NotFoundError:
        return None


def content(cluster: Cluster, name: str, namespace: str) -> dict[str, bytes] | None:
    """Return a Secret's bytes by key, or None when the namespace has none of this name."""
    live_secret = secret(cluster, name, namespace)
    if live_secret is None:
        return None
    return {key: base64.b64decode(value) for key, value in live_secret.get("data", {}).items()}


def wait_for(cluster: Cluster, name: str, namespace: str, wanted: Mapping[str, bytes] | None) -> None:
    """Return once a Secret has exactly these bytes; None waits until it is gone."""
    eventually(lambda: content(cluster, name, namespace) == wanted, f"{namespace}/{name} to be {wanted}", 90)


def declare(cluster: Cluster, name: str, key: str, namespace: str = SPACE, interval: str = "1h0m0s") -> None:
    """Apply an ExternalSecret that reads one path."""
    manifest = reference(key, refreshInterval=interval)
    manifest["metadata"] = {"name": name, "namespace": namespace}
    manifest["spec"]["target"]["name"] = name
    cluster.client.apply(manifest)


def test_a_rendered_reference_gives_the_field_of_the_tenants_own_path(operated: Cluster) -> None:
    wait_for(operated, DECLARED, ML_ORBIT, {"token": b"hf-ml-orbit"})
    live_secret = secret(operated, DECLARED, ML_ORBIT)
    assert live_secret is not None
    owners = live_secret["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner["name"], owner["controller"]) for owner in owners] == [
        ("ExternalSecret", DECLARED, True)
    ]


def test_the_operator_changes_nothing_that_is_rendered(operated: Cluster, sample_tree: Path) -> None:
    wait_for(operated, DECLARED, ML_ORBIT, {"token": b"hf-ml-orbit"})
    (rendered_reference,) = rendered.objects(sample_tree, f"tenants/ml-orbit/compute/{DECLARED}.rendered.yaml")
    live_reference = operated.client.get(API, "ExternalSecret", DECLARED, ML_ORBIT)
    assert live_reference["spec"] == rendered_reference["spec"]


def test_two_tenants_with_the_same_path_get_their_own_values(operated: Cluster) -> None:
    declare(operated, DECLARED, "tenants/studio-kite/huggingface")
    wait_for(operated, DECLARED, SPACE, {"token": b"hf-studio-kite"})
    wait_for(operated, DECLARED, ML_ORBIT, {"token": b"hf-ml-orbit"})


def test_a_rotated_value_arrives_after_the_interval(operated: Cluster) -> None:
    declare(operated, "rotated--secret", "tenants/studio-kite/huggingface", interval="1s")
    wait_for(operated, "rotated--secret", SPACE, {"token": b"hf-studio-kite"})
    rotated = {**VALUES, "tenants/studio-kite/huggingface": "rotated-studio-kite"}
    operated.client.apply(external_secrets.store(STORE, rotated))
    wait_for(operated, "rotated--secret", SPACE, {"token": b"rotated-studio-kite"})


def test_an_annotation_forces_the_operator_to_read_again(operated: Cluster) -> None:
    wait_for(operated, DECLARED, ML_ORBIT, {"token": b"hf-ml-orbit"})
    rotated = {**VALUES, "tenants/ml-orbit/huggingface": json.dumps({"token": "rotated-ml-orbit"})}
    operated.client.apply(external_secrets.store(STORE, rotated))
    external_secrets.force_sync(operated, DECLARED, ML_ORBIT, "rotated")
    wait_for(operated, DECLARED, ML_ORBIT, {"token": b"rotated-ml-orbit"})
    operated.client.apply(external_secrets.store(STORE, VALUES))
    external_secrets.force_sync(operated, DECLARED, ML_ORBIT, "restored")
    wait_for(operated, DECLARED, ML_ORBIT, {"token": b"hf-ml-orbit"})


def test_a_value_that_is_gone_from_the_store_stays_in_the_secret(operated: Cluster) -> None:
    declare(operated, "gone--secret", "tenants/studio-kite/huggingface")
    wait_for(operated, "gone--secret", SPACE, {"token": b"hf-studio-kite"})
    left = {path: value for path, value in VALUES.items() if path != "tenants/studio-kite/huggingface"}
    operated.client.apply(external_secrets.store(STORE, left))
    external_secrets.force_sync(operated, "gone--secret", SPACE, "gone")
    wait_until_failed(operated, "gone--secret", SPACE)
    assert content(operated, "gone--secret", SPACE) == {"token": b"hf-studio-kite"}


def test_a_path_that_the_store_lacks_gives_no_secret(operated: Cluster) -> None:
    declare(operated, "missing--secret", "tenants/studio-kite/missing")
    wait_until_failed(operated, "missing--secret", SPACE)
    assert secret(operated, "missing--secret", SPACE) is None


def wait_until_failed(cluster: Cluster, name: str, namespace: str) -> None:
    """Return once the operator says that it could not read an ExternalSecret's values."""

    def has_failed() -> bool:
        condition = external_secrets.ready_condition(cluster, "ExternalSecret", name, namespace)
        return (condition.get("status"), condition.get("reason")) == ("False", "SecretSyncedError")

    eventually(has_failed, f"{namespace}/{name} to fail", 90)


def test_another_tenants_path_is_refused_and_read_by_nobody(operated: Cluster) -> None:
    theirs = reference("tenants/ml-orbit/other")
    message = refusal(operated.client.apply, deepcopy(theirs))
    assert message is not None
    assert PATH in message
    declare(operated, "changed--secret", "tenants/studio-kite/huggingface")
    wait_for(operated, "changed--secret", SPACE, {"token": b"hf-studio-kite"})
    changed = {"spec": {"data": theirs["spec"]["data"]}}
    message = refusal(operated.client.patch, API, "ExternalSecret", "changed--secret", changed, SPACE)
    assert message is not None
    assert PATH in message
    external_secrets.force_sync(operated, "changed--secret", SPACE, "refused")
    wait_for(operated, "changed--secret", SPACE, {"token": b"hf-studio-kite"})
    assert secret(operated, "key--secret", SPACE) is None
    values = [base64.b64decode(value) for value in secret_values(operated)]
    assert not any(b"other-ml-orbit" in value or b"registry-platform" in value for value in values)


def secret_values(cluster: Cluster) -> Iterator[str]:
    """Yield every value of every Secret in the namespaces of tenants."""
    for live_secret in cluster.client.list("v1", "Secret"):
        if live_secret["metadata"]["namespace"].startswith("t-"):
            yield from (live_secret.get("data") or {}).values()


def test_a_namespace_without_a_tenant_reads_nothing(operated: Cluster, namespace: str) -> None:
    declare(operated, "key--secret", "platform/registry", namespace)
    wait_until_failed(operated, "key--secret", namespace)
    assert secret(operated, "key--secret", namespace) is None


def test_the_secret_goes_with_its_declaration(operated: Cluster) -> None:
    declare(operated, "removed--secret", "tenants/studio-kite/huggingface")
    wait_for(operated, "removed--secret", SPACE, {"token": b"hf-studio-kite"})
    operated.client.delete(API, "ExternalSecret", "removed--secret", SPACE)
    wait_for(operated, "removed--secret", SPACE, None)


SOLO_ADA = names.namespace("solo-ada")


@pytest.mark.parametrize(
    ("name", "path", "expected_value"),
    [
        (
            "registry--image-pull",
            "tenants/solo-ada/compute/registry--secret.rendered.yaml",
            VALUES["tenants/solo-ada/registry"],
        ),
        ("image-pull--platform", "control/namespaces/s/solo-ada.rendered.yaml", PLATFORM_CONFIG),
    ],
)
def test_a_pull_credential_is_a_docker_config_as_the_store_has_it(
    operated: Cluster, pull_cluster: Cluster, pull_tree: Path, name: str, path: str, expected_value: str
) -> None:
    assert pull_cluster is operated
    (manifest,) = (each for each in rendered.objects(pull_tree, path) if each["kind"] == "ExternalSecret")
    operated.client.apply(manifest)
    wait_for(operated, name, SOLO_ADA, {".dockerconfigjson": expected_value.encode()})
    live_secret = secret(operated, name, SOLO_ADA)
    assert live_secret is not None
    assert live_secret["type"] == "kubernetes.io/dockerconfigjson"
    live_reference = operated.client.get(API, "ExternalSecret", name, SOLO_ADA)
    assert live_reference["spec"] == manifest["spec"]
    operated.client.delete(API, "ExternalSecret", name, SOLO_ADA)
    wait_for(operated, name, SOLO_ADA, None)
