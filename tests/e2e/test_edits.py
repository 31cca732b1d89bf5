"""Somebody edits a rendered object by hand, or adds one: Argo CD says Synced, and the status names it."""

from __future__ import annotations

import time

import pytest

from allotment.observed.drift import COMPARED_KINDS, find_differences
from allotment.observed.status import Condition, Instance, Snapshot, Storage
from allotment.services.reporter.edit_detection import EDIT_DELAY_SECONDS
from tests.controlplane.client import Client, Object
from tests.controlplane.processes import eventually
from tests.e2e import oracle
from tests.e2e.cloud import Cloud
from tests.e2e.test_report import TENANT, instance, status, until
from tests.published import git

pytestmark = pytest.mark.e2e

SPACE = f"t-{TENANT}"
POD = "spec.template.spec"
SECONDS = 120  # an edit must last for half a minute
SETTLED_SECONDS = EDIT_DELAY_SECONDS + 15


def read_edit_conditions(cloud: Cloud) -> dict[str, Condition]:
    """Return what the status says of edits, by the condition's type and whose it is."""
    names = git(cloud.forge, "ls-tree", "--name-only", "refs/heads/status/eu-1", "tenants/").splitlines()
    edit_conditions: dict[str, Condition] = {}
    for name in names:
        tenant_status = status(cloud, name.removeprefix("tenants/").removesuffix(".yaml"))
        resources: list[Instance | Storage | Snapshot] = [
            *tenant_status.instances,
            *tenant_status.storages,
            *tenant_status.snapshots,
        ]
        for label, conditions in [
            ("", tenant_status.conditions),
            *((each.name, each.conditions) for each in resources),
        ]:
            edit_conditions |= {
                f"{tenant_status.tenant}/{label} {each.type}": each
                for each in conditions
                if each.type in ("AsPublished", "OnlyPublished")
            }
    return edit_conditions


def add_by_hand(client: Client, name: str, space: str) -> tuple[str, ...]:
    """Add a label, a variable and a container to an instance's Deployment; return the fields."""
    (container,) = client.get("apps/v1", "Deployment", name, space)["spec"]["template"]["spec"]["containers"]
    sidecar = {key: container[key] for key in ("image", "securityContext")} | {"name": "sidecar"}
    main = {**container, "env": [*container.get("env", ()), {"name": "EDITED", "value": "yes"}]}
    change = {
        "metadata": {"labels": {"edited": "yes"}},
        "spec": {"template": {"spec": {"containers": [main, sidecar]}}},
    }
    client.patch("apps/v1", "Deployment", name, change, space)
    return "metadata.labels.edited", f"{POD}.containers[main].env[EDITED]", f"{POD}.containers[sidecar]"


def open_policy(space: str) -> Object:
    """Return a NetworkPolicy that opens a namespace to everybody."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "open", "namespace": space},
        "spec": {"podSelector": {}, "ingress": [{}]},
    }


def test_nothing_of_the_sample_differs(reported_cloud: Cloud) -> None:
    until(reported_cloud, "webui", "Running")
    reported_cloud.all_synced(300)

    time.sleep(SETTLED_SECONDS)
    assert read_edit_conditions(reported_cloud) == {}


def test_every_live_object_of_the_sample_is_as_published(reported_cloud: Cloud) -> None:
    """Also those for which the reporter waits 5 minutes."""
    client = reported_cloud.clusters["eu-1"].client
    differing_fields, kinds = {}, set()
    for prefix in ("tenants/", "control/namespaces/"):
        for _, manifest in oracle.objects(reported_cloud, "refs/heads/rendered/eu-1", prefix):
            if manifest["kind"] in COMPARED_KINDS:
                metadata = manifest["metadata"]
                live = client.get(manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace"))
                kinds.add(manifest["kind"])
                if differing := find_differences(manifest, live):
                    differing_fields[f"{metadata.get('namespace')}/{metadata['name']}"] = [
                        str(each) for each in differing
                    ]
    assert differing_fields == {}
    assert kinds == set(COMPARED_KINDS)


def test_a_hand_edit_is_named_and_goes_with_it(reported_cloud: Cloud) -> None:
    cloud, client = reported_cloud, reported_cloud.clusters["eu-1"].client
    fields = add_by_hand(client, "webui", SPACE)
    client.apply(open_policy(SPACE))

    def named() -> bool:
        edit_conditions = read_edit_conditions(cloud)
        assert set(edit_conditions) == {f"{TENANT}/webui AsPublished", f"{TENANT}/ OnlyPublished"}, edit_conditions
        edited = edit_conditions[f"{TENANT}/webui AsPublished"]
        assert edited.reason == "EditedByHand"
        assert all(f"{field} isn't published" in edited.message for field in fields), edited.message
        assert edit_conditions[f"{TENANT}/ OnlyPublished"].message.startswith("NetworkPolicy open isn't published")
        return True

    eventually(named, "the edits to be named", SECONDS, pause=1)
    part = next(application for application in status(cloud).applications if application.name == "compute")
    assert part.sync == "Synced"
    assert instance(cloud, "webui").state != "Failed"
    client.delete("networking.k8s.io/v1", "NetworkPolicy", "open", SPACE)
    client.delete("apps/v1", "Deployment", "webui", SPACE)
    eventually(lambda: read_edit_conditions(cloud) == {}, "nothing to differ any more", SECONDS, pause=1)
