"""One tenant's way from a pull request to an instance that serves its prepared model, and all that breaks under it afterwards."""

from __future__ import annotations

import datetime
import hashlib
import os
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pytest

from allotment.manifests import names
from allotment.programs import volume
from tests.conftest import PROJECT
from tests.controlplane import internet, node
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.controlplane.gitea import ADMIN
from tests.e2e.cloud import REPOSITORY, Cloud
from tests.e2e.pulls import Person
from tests.support.cloud_recovery import brought_back
from tests.support.cloud_status import BRANCH, OURS, until
from tests.support.published import git
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
ADA, SPACE = "solo-ada", "t-solo-ada"
WEBUI = f"tenants/{ADA}/instances/webui.yaml"
MODELS = f"tenants/{ADA}/storages/models.yaml"
PREPARED = """\
  prepare:
    source:
      url: {{url: "https://models.example.com/{name}", sha256: {sha256}}}
"""
NAME = "sdxl.safetensors"


class Seen(NamedTuple):
    """What there is of the tenant: its model as it lies on the volume, who prepared it, and how often it was asked for."""

    model: tuple[int, int, str]  # inode, time in nanoseconds, hash
    marker: bytes
    job: str
    pods: frozenset[str]
    request_count: int


class Begun(NamedTuple):
    """The pod that the instance began with, and what there was then."""

    pod: str
    seen: Seen


class Tenant(NamedTuple):
    """The tenant's instance in its cloud."""

    cloud: Cloud
    node: Node
    before: str  # the rendered branch when there was nothing of it yet

    def pod(self) -> Object:
        """Return the instance's pod, the only one it has. What a node didn't take after it booted stays as an object."""
        pods = self.node.cluster.client.list("v1", "Pod", SPACE, f"{names.INSTANCE}=webui")
        (live_pod,) = [pod for pod in pods if pod["status"].get("phase") != "Failed"]
        return live_pod

    def served(self) -> str:
        """Return the hash of the model as the instance serves it."""
        address = f"http://{self.pod()['status']['podIP']}:7860/workspace/{NAME}"
        with urllib.request.urlopen(address, timeout=5) as answer:
            return hashlib.sha256(answer.read()).hexdigest()

    def running(self) -> Object:
        """Return the instance's pod once its status says Running and it serves the model."""
        until(self.cloud, "webui", "Running", ADA, 120)
        wanted = self.seen().model[2]
        eventually(lambda: self.served() == wanted, "the model to be served", 60)
        return self.pod()

    def seen(self) -> Seen:
        """Return what there is now."""
        client = self.node.cluster.client
        claim = client.get("v1", "PersistentVolumeClaim", "models", SPACE)
        root = node.volumes(self.node.cluster) / str(claim["metadata"]["uid"])
        model = root / NAME
        (job,) = client.list("batch/v1", "Job", SPACE, f"{names.STORAGE}=models")
        pods = client.list("v1", "Pod", SPACE, f"batch.kubernetes.io/job-name={job['metadata']['name']}")
        request_lines = [line for line in internet.asked_of_files(self.node.world) if NAME in line]
        return Seen(
            (model.stat().st_ino, model.stat().st_mtime_ns, hashlib.sha256(model.read_bytes()).hexdigest()),
            (root / volume.OWN / "prepared").read_bytes(),
            job["metadata"]["uid"],
            frozenset(pod["metadata"]["uid"] for pod in pods),
            len(request_lines),
        )


@pytest.fixture(scope="module")
def tenant(real_cloud: Cloud, real_node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """Return the tenant once the pull request is merged that asks for a prepared storage and the sample's instance."""
    cloud = real_cloud
    model = os.urandom(5_000_000)
    (internet.files(real_node.world) / NAME).write_bytes(model)
    before = git(cloud.forge, "rev-parse", "refs/heads/rendered/eu-1")
    ada = Person(cloud.gitea, "ada", REPOSITORY, tmp_path_factory.mktemp("ada") / "fork")
    prepared = PREPARED.format(name=NAME, sha256=hashlib.sha256(model).hexdigest())
    sample = (PROJECT / MODELS).read_text(encoding="utf-8")
    ada.write(MODELS, sample.replace("  accessor:\n    exposure: Members\n", prepared))
    ada.write(WEBUI, (PROJECT / WEBUI).read_text(encoding="utf-8"))
    number = ada.open("webui", "A WebUI with my model")
    admin = partial(cloud.gitea.api, f"repos/{REPOSITORY}/pulls/{number}/merge", {"Do": "merge"}, user=ADMIN)
    eventually(lambda: admin() is not None, "the merge", 60)
    git(cloud.root, "fetch", "-q", cloud.url, "main")
    git(cloud.root, "reset", "-q", "--hard", "FETCH_HEAD")
    cloud.merged_head()
    yield Tenant(cloud, real_node, before)
    ada.forget()


@pytest.fixture(scope="module")
def begun(tenant: Tenant) -> Begun:
    """Return what there is once the instance serves its model for the first time."""
    pod = tenant.running()
    return Begun(pod["metadata"]["uid"], tenant.seen())


def restarts(pod: Object) -> int:
    """Return how often a pod's container was started again."""
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def test_a_pull_request_leads_to_an_instance_that_serves_its_model(tenant: Tenant, begun: Begun) -> None:
    assert begun.seen.model[2] == tenant.served()
    assert len(begun.seen.pods) == 1
    assert begun.seen.request_count >= 1


@pytest.mark.parametrize("program", ["kubelet", "containerd"])
def test_a_program_of_the_node_is_killed_and_the_instance_answers_on(
    program: str, tenant: Tenant, begun: Begun
) -> None:
    before = tenant.pod()
    node.kill(tenant.node.cluster, program)
    assert tenant.served() == begun.seen.model[2], f"it answers without {program}"
    node.run(tenant.node.cluster, tenant.node.world, program)
    began = datetime.datetime.now(datetime.UTC)
    eventually(lambda: node.is_ready(tenant.node.cluster, began), "the node to be ready again")
    after = tenant.running()
    assert (after["metadata"]["uid"], restarts(after)) == (begun.pod, restarts(before))
    assert tenant.seen() == begun.seen


def test_the_node_boots_again_and_the_instance_is_back_with_its_model(tenant: Tenant, begun: Begun) -> None:
    before = tenant.pod()
    node.stop(tenant.node.cluster)
    with pytest.raises(OSError):
        tenant.served()
    node.boot(tenant.node.cluster)

    def back() -> bool:
        """In the same pod, or in another where the kubelet was there before its device plugin and didn't take that one."""
        live_pod = tenant.pod()
        restarted = live_pod["metadata"]["uid"] != begun.pod or restarts(live_pod) > restarts(before)
        return restarted and bool(live_pod["status"]["containerStatuses"][0]["ready"])

    eventually(back, "its container to run again", 90)
    tenant.running()
    assert tenant.seen() == begun.seen


def test_the_branch_is_wound_back_to_before_the_tenant_and_its_instance_runs_on(tenant: Tenant, begun: Begun) -> None:
    cloud, before = tenant.cloud, tenant.running()["metadata"]["uid"]
    git(cloud.root, "fetch", "-q", cloud.url, "refs/heads/rendered/eu-1")

    def is_without() -> bool:
        applications = [cloud.argocd.application(f"{ADA}--eu-1--{part}") for part in ("compute", "storage")]
        return all(application["status"]["sync"]["status"] == "Unknown" for application in applications)

    with cloud.publisher_stopped():
        git(cloud.root, "push", "-q", "--force", cloud.url, f"{tenant.before}:refs/heads/rendered/eu-1")
        eventually(is_without, "Argo CD to see that nothing of the tenant is published", 120)
        assert tenant.served() == begun.seen.model[2]
    brought_back(cloud)
    cloud.all_synced()
    assert tenant.running()["metadata"]["uid"] == before
    assert tenant.seen() == begun.seen


def test_the_status_is_lost_and_nothing_stops_or_is_prepared_again(tenant: Tenant, begun: Begun) -> None:
    cloud, before = tenant.cloud, tenant.running()["metadata"]["uid"]
    lost = cloud.published()[BRANCH]
    git(cloud.root, "push", "-q", cloud.url, f":{BRANCH}", f":{OURS}")
    cloud.edit(WEBUI, "spec:\n", "spec:\n  description: Mine.\n")
    cloud.merged()
    eventually(lambda: cloud.published().get(BRANCH, lost) != lost, "the status to be written again", 60)
    after = tenant.running()
    assert after["metadata"]["uid"] == before, "a description restarts nothing"
    assert tenant.seen() == begun.seen
