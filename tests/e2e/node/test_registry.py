"""Images of a registry: a node pulls what it lacks, and says why it can't."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.controlplane import images, internet, registry
from tests.controlplane.fixtures import Node
from tests.e2e.node import pods
from tests.e2e.node.pods import Pod
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]


def offered(real_node: Node, repository: str) -> str:
    """Return by which digest an image can be pulled that no node had before."""
    name = f"registry.example/{repository}:1"
    image = images.busybox("/bin/sleep", "infinity", files={"etc/made": secrets.token_bytes(8)})
    return internet.offer(real_node.world, {name: image})[name]


def test_an_image_that_is_only_in_the_registry_is_pulled_by_its_digest(real_node: Node) -> None:
    image = offered(real_node, "team/pulled")
    with pods.running(real_node, pods.pod("default", "pulled", image)) as (pod,):
        (status,) = pod["status"]["containerStatuses"]
        assert status["imageID"] == image


def reasons(real_node: Node, pod: Pod) -> dict[str, str]:
    """Return why a pod waits: each reason that is seen until it is backed off, with the message that it first had."""
    client, seen = real_node.cluster.client, dict[str, str]()

    def backed_off() -> bool:
        (status,) = pods.seen(real_node, pod)["status"]["containerStatuses"]
        waiting = status["state"]["waiting"]
        if "message" in waiting:
            seen.setdefault(waiting["reason"], waiting["message"])
        return "ImagePullBackOff" in seen

    client.apply(pod)
    try:
        eventually(backed_off, "the pod to be backed off", pause=0.02)
    finally:
        client.delete("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
    return seen


def test_an_image_that_is_not_there_is_not_found(real_node: Node) -> None:
    image = f"registry.example/nowhere@sha256:{'0' * 64}"
    messages = reasons(real_node, pods.pod("default", "astray", image))
    assert messages.keys() == {"ErrImagePull", "ImagePullBackOff"}
    assert messages["ErrImagePull"].endswith(f"{image}: not found")
    assert messages["ImagePullBackOff"].startswith(f'Back-off pulling image "{image}"')


def test_a_private_image_is_not_given(real_node: Node) -> None:
    image = offered(real_node, "private/web")
    messages = reasons(real_node, pods.pod("default", "stranger", image))
    assert messages.keys() == {"ErrImagePull", "ImagePullBackOff"}
    denied = "pull access denied, repository does not exist or may require authorization"
    assert denied in messages["ErrImagePull"]
    assert denied in messages["ImagePullBackOff"]


@contextmanager
def credential(real_node: Node, password: str) -> Iterator[None]:
    """Let the pods of a namespace pull with a password, as a tenant's ServiceAccount does."""
    client, login = real_node.cluster.client, base64.b64encode(f"{registry.ROBOT}:{password}".encode()).decode()
    config = json.dumps({"auths": {"registry.example": {"auth": login}}})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "team--image-pull", "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()},
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    client.apply(secret, {**account, "imagePullSecrets": [{"name": "team--image-pull"}]})
    try:
        yield
    finally:
        client.apply(account)
        client.delete("v1", "Secret", "team--image-pull", "default")


def test_a_private_image_is_pulled_with_the_credential_of_the_service_account(real_node: Node) -> None:
    image = offered(real_node, "private/own")
    with (
        credential(real_node, registry.PASSWORD),
        pods.running(real_node, pods.pod("default", "own", image)) as (pod,),
    ):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "team--image-pull"}]
        (status,) = pod["status"]["containerStatuses"]
        assert status["imageID"] == image


def test_a_wrong_credential_is_denied(real_node: Node) -> None:
    image = offered(real_node, "private/denied")
    with credential(real_node, "wrong"):
        messages = reasons(real_node, pods.pod("default", "wrong", image))
    assert any(phrase in messages["ImagePullBackOff"].lower() for phrase in ("unauthorized", "denied"))
