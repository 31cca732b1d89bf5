"""Somebody edits a rendered object by hand, or adds one: Argo CD says Synced, and the status names it."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest

from allotment.manifests import names
from allotment.observed.drift import COMPARED_KINDS, find_differences
from allotment.services.reporter.edit_detection import EDIT_DELAY_SECONDS
from tests.controlplane.client import Client, Object
from tests.e2e import oracle
from tests.e2e.cloud import Cloud
from tests.support.cloud_status import TENANT, instance, status, until
from tests.support.manual_edits import (
    NEVER_MATCHES,
    SECONDS,
    add_by_hand,
    open_policy,
    open_role_binding,
    read_edit_conditions,
)
from tests.support.secret_store import CLUSTER, PLATFORM_PULL, PULL_REFERENCE, declare_image_pull, declare_restart
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

SPACE = f"t-{TENANT}"
WEBUI = f"tenants/{TENANT}/instances/webui.yaml"
SECRET, RELOAD = "huggingface--secret", names.RELOAD_SECRETS
PULL_SECRETS = ["registry--image-pull", "image-pull--platform"]
SETTLED_SECONDS = EDIT_DELAY_SECONDS + 15


def test_nothing_of_the_sample_differs(cloud: Cloud) -> None:
    until(cloud, "webui", "Running")
    cloud.changes_synced()

    time.sleep(SETTLED_SECONDS)
    assert read_edit_conditions(cloud) == {}


def test_every_live_object_of_the_sample_is_as_published(cloud: Cloud) -> None:
    """Also those for which the reporter waits 5 minutes."""
    client = cloud.clusters["eu-1"].client
    differing_fields, kinds = {}, set()
    for prefix in ("tenants/", "control/", "platform/"):
        for _, manifest in oracle.objects(cloud, "refs/heads/rendered/eu-1", prefix):
            if manifest["kind"] in COMPARED_KINDS:
                metadata = manifest["metadata"]
                live = client.get(manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace"))
                kinds.add(manifest["kind"])
                if differing := find_differences(manifest, live):
                    differing_fields[f"{metadata.get('namespace')}/{metadata['name']}"] = [
                        str(each) for each in differing
                    ]
    assert differing_fields == {}
    assert kinds == set(COMPARED_KINDS) - {"NodePool", "NodeOverlay"}, "this cluster has no Karpenter"


@pytest.mark.parametrize(
    ("kind", "name", "field", "value"),
    [
        ("ValidatingAdmissionPolicy", "allotment-tenant-pods", "matchConditions", NEVER_MATCHES),
        ("ValidatingAdmissionPolicyBinding", "allotment-tenant-secrets", "matchResources", {"objectSelector": {}}),
        ("Application", "allotment--namespaces-s--eu-1", "ignoreDifferences", [{"kind": "NetworkPolicy"}]),
        ("AppProject", f"{TENANT}--eu-1", "orphanedResources", {"warn": False}),
    ],
    ids=lambda value: value if isinstance(value, str) and value[0].isupper() else "",
)
def test_an_addition_to_an_object_of_the_platform_is_a_difference(
    kind: str, name: str, field: str, value: object, cloud: Cloud
) -> None:
    """The API server accepts the addition, and Argo CD does not undo it."""
    client = cloud.clusters["eu-1"].client
    manifest = next(
        each
        for folder in ("platform/", "control/")
        for _, each in oracle.objects(cloud, "refs/heads/rendered/eu-1", folder)
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    version, space = manifest["apiVersion"], manifest["metadata"].get("namespace")
    client.patch(version, kind, name, {"spec": {field: value}}, space)
    try:
        (difference,) = find_differences(manifest, client.get(version, kind, name, space))
        assert str(difference) == f"spec.{field} isn't published"
    finally:
        client.patch(version, kind, name, {"spec": {field: None}}, space)
    assert find_differences(manifest, client.get(version, kind, name, space)) == ()


def test_a_hand_edit_is_named_and_goes_with_it(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    fields = add_by_hand(client, "webui", SPACE)
    client.apply(open_policy(SPACE))
    client.apply(open_role_binding(SPACE))

    def named() -> bool:
        edit_conditions = read_edit_conditions(cloud)
        assert set(edit_conditions) == {f"{TENANT}/webui AsPublished", f"{TENANT}/ OnlyPublished"}, edit_conditions
        edited = edit_conditions[f"{TENANT}/webui AsPublished"]
        assert edited.reason == "EditedByHand"
        assert all(f"{field} isn't published" in edited.message for field in fields), edited.message
        assert edit_conditions[f"{TENANT}/ OnlyPublished"].message.startswith("NetworkPolicy open isn't published")
        assert "RoleBinding open isn't published" in edit_conditions[f"{TENANT}/ OnlyPublished"].message
        return True

    eventually(named, "the edits to be named", SECONDS, pause=1)
    part = next(application for application in status(cloud).applications if application.name == "compute")
    assert part.sync == "Synced"
    assert instance(cloud, "webui").state != "Failed"
    client.delete("networking.k8s.io/v1", "NetworkPolicy", "open", SPACE)
    client.delete("rbac.authorization.k8s.io/v1", "RoleBinding", "open", SPACE)
    client.delete("apps/v1", "Deployment", "webui", SPACE)
    eventually(lambda: read_edit_conditions(cloud) == {}, "nothing to differ any more", SECONDS, pause=1)


def reload(client: Client, name: str) -> None:
    """Restart a Deployment as Stakater Reloader does with the strategy `annotations`, if its annotation names the Secret."""
    deployment = client.get("apps/v1", "Deployment", name, SPACE)
    if SECRET not in deployment["metadata"]["annotations"].get(RELOAD, "").split(","):
        return
    source = json.dumps({"type": "SECRET", "name": SECRET, "namespace": SPACE, "hash": "0" * 40})
    change = {"metadata": {"annotations": {"reloader.stakater.com/last-reloaded-from": source}}}
    client.patch("apps/v1", "Deployment", name, {"spec": {"template": change}}, SPACE)


def pod(client: Client, name: str) -> Object | None:
    """Return the pod of an instance; None while it has none or several."""
    pods = client.list("v1", "Pod", SPACE, f"{names.INSTANCE}={name}")
    return pods[0] if len(pods) == 1 and "deletionTimestamp" not in pods[0]["metadata"] else None


def test_a_new_value_restarts_only_an_instance_that_declares_it(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    declare_restart(cloud.root)
    declare_image_pull(cloud.root)
    text = (cloud.root / WEBUI).read_text(encoding="utf-8")
    keeping = text.replace("name: webui", "name: keeping").replace("  onSecretChange: Restart\n", "")
    keeping = keeping.partition("  storages:\n")[0]  # its storage has room for a single instance
    cloud.declare(WEBUI.replace("webui", "keeping"), keeping)
    cloud.merged()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": SPACE}}
    client.apply({**secret, "stringData": {"token": "first"}})
    cloud.changes_synced()

    def first_pod(name: str) -> Object:
        live_pod = pod(client, name)
        assert live_pod is not None
        assert [each["name"] for each in live_pod["spec"]["imagePullSecrets"]] == PULL_SECRETS
        return live_pod

    def delete_old_pods() -> None:
        """Let Kubernetes create the pods again, which are older than their pull credentials."""
        for name in ("webui", "keeping"):
            live_pod = pod(client, name)
            if live_pod is not None and "imagePullSecrets" not in live_pod["spec"]:
                client.delete("v1", "Pod", live_pod["metadata"]["name"], SPACE)

    delete_old_pods()
    uids = {}
    for name in ("webui", "keeping"):
        live_pod = eventually(partial(first_pod, name), f"a pod of {name}", 90)
        uids[name] = live_pod["metadata"]["uid"]
    client.apply({**secret, "stringData": {"token": "second"}})
    for name in uids:
        reload(client, name)

    def restarted() -> bool:
        live_pods = {name: pod(client, name) for name in uids}
        assert all(live_pods.values()), live_pods
        return {
            name: live_pod["metadata"]["uid"] == uids[name] for name, live_pod in live_pods.items() if live_pod
        } == {
            "webui": False,
            "keeping": True,
        }

    eventually(restarted, "the new pod", 90)
    cloud.wait_until_synced({f"{TENANT}--eu-1--compute"})  # asks Argo CD to compare again
    assert restarted()
    template = client.get("apps/v1", "Deployment", "webui", SPACE)["spec"]["template"]["metadata"]
    assert template["annotations"].keys() == {"reloader.stakater.com/last-reloaded-from"}
    time.sleep(SETTLED_SECONDS)
    assert read_edit_conditions(cloud) == {}


def test_without_a_credential_the_service_account_is_empty_again(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    cloud.edit(CLUSTER, PLATFORM_PULL, "")
    (cloud.root / PULL_REFERENCE).unlink()
    cloud.merged()
    cloud.changes_synced()

    def is_empty() -> bool:
        account = client.get("v1", "ServiceAccount", names.SERVICE_ACCOUNT, SPACE)
        assert "imagePullSecrets" not in account, account
        return True

    eventually(is_empty, "an empty ServiceAccount")
