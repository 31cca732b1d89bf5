"""Storages on their way: filled, cloned, snapshot and restored, grown and deleted, by merges alone; what waits holds no GPU."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

from allotment.manifests.tenant import programs
from allotment.observed.status import Snapshot, Storage
from tests.controlplane.client import Object, refusal
from tests.e2e import oracle
from tests.e2e.cloud import IDENTITY, Cloud
from tests.support.cloud_status import MOUNT, TENANT, allot, instance, pods, status, storage, until
from tests.support.cloud_storage import SNAPSHOT, ready
from tests.support.published import EMPTY_STORAGE, INSTANCE, STORAGE, git
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

SPACE = f"t-{TENANT}"
CLONE = f"""\
{EMPTY_STORAGE}\
  prepare:
    source:
      {{source}}:
        name: {{of}}
"""


def snapshot(cloud: Cloud, name: str) -> Snapshot:
    return next(snapshot_status for snapshot_status in status(cloud).snapshots if snapshot_status.name == name)


def claim(cloud: Cloud, name: str, space: str = SPACE) -> Object | None:
    try:
        return cloud.clusters["eu-1"].client.get("v1", "PersistentVolumeClaim", name, space)
    except NotFoundError:
        return None


def ran(cloud: Cloud, *storages: str) -> set[str]:
    """Return the names of the programs that the Jobs of some storages run, one Job each."""
    jobs = cloud.clusters["eu-1"].client.list("batch/v1", "Job", SPACE)
    of = {job["metadata"]["labels"]["allotment.dev/storage"]: job["spec"]["template"]["spec"] for job in jobs}
    return {volume["configMap"]["name"] for name in storages for volume in of[name]["volumes"] if "configMap" in volume}


def recover(cloud: Cloud, *words: str) -> subprocess.CompletedProcess[str]:
    """Recover a storage in the clone, whose origin says what is merged meanwhile."""
    place = ["--repo", str(cloud.root), "--from", cloud.url, "--push", cloud.url]
    command = [sys.executable, "-m", "allotment", "recover", *words, *place]
    git(cloud.root, "remote", "add", "origin", cloud.url)
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        git(cloud.root, "remote", "remove", "origin")


def merge_branch(cloud: Cloud, branch: str) -> None:
    """Merge a branch as a forge does, and wait until it is published."""
    git(cloud.root, "fetch", "-q", cloud.url, branch)
    git(cloud.root, *IDENTITY, "merge", "-q", "--ff-only", "FETCH_HEAD")
    cloud.merged_head()


def test_a_clone_and_an_instance_wait_for_a_failed_storage_until_it_is_recovered(cloud: Cloud) -> None:
    origin = f"tenants/{TENANT}/storages/origin.yaml"
    cloud.declare(origin, STORAGE.format(name="origin") + "        args: [--simulate=first-attempt-fails]\n")
    cloud.declare(f"tenants/{TENANT}/storages/twin.yaml", CLONE.format(name="twin", source="storage", of="origin"))
    artist = INSTANCE.format(name="artist", labels="") + MOUNT.format(name="twin")
    cloud.declare(f"tenants/{TENANT}/instances/artist.yaml", artist)
    cloud.merged()

    def failed() -> Storage:
        storage_status = storage(cloud, "origin")
        assert storage_status.state == "Failed", (storage_status.state, storage_status.message)
        return storage_status

    preparation = eventually(failed, "the preparation to fail", 180, pause=1).prepare
    assert preparation is not None
    assert (preparation.attempt, preparation.state, preparation.reason, preparation.exit_code) == (
        1,
        "Failed",
        "PreparationFailed",
        1,
    )
    job = f"origin--prepare-{preparation.input_hash[:10]}-1"
    page = f"https://argocd.northlight.example/applications/argocd/{TENANT}--eu-1--storage"
    assert preparation.log == f"{page}?node=batch/Job/{SPACE}/{job}/0&tab=logs"
    twin = eventually(lambda: storage(cloud, "twin"), "the clone to be told", 60)
    assert (twin.state, twin.reason) == ("Pending", "SourceUnprepared")
    assert twin.message == "waits for storage origin to be prepared"
    assert claim(cloud, "twin") is None
    waiting = instance(cloud, "artist")
    assert (waiting.state, waiting.reason, pods(cloud, "artist")) == ("Waiting", "StorageUnprepared", [])

    recovery = recover(cloud, f"{TENANT}/origin", "--reason", "The registry is back.")
    assert recovery.returncode == 0, recovery.stderr
    branch = f"recover/{TENANT}/origin-2"
    assert recovery.stdout.startswith(f"{branch}: ")
    merge_branch(cloud, branch)
    commit_message = git(cloud.root, "log", "-1", "--format=%an|%B")
    assert commit_message.startswith(
        f"allotment|Recover {TENANT}/origin: attempt 2\n\nThe registry is back.\n\nAttempt 1 failed on eu-1 at "
    )
    assert ready(cloud, "origin").prepare is not None
    twin_preparation = ready(cloud, "twin").prepare
    assert twin_preparation is not None
    assert twin_preparation.state == "Succeeded"
    live = claim(cloud, "twin")
    assert live is not None
    assert live["spec"]["dataSourceRef"]["name"] == "origin"
    until(cloud, "artist", "Running", seconds=180)
    refused = recover(cloud, f"{TENANT}/origin", "--reason", "Once more.")
    assert refused.returncode == 2
    assert f"attempt 2 of {TENANT}/origin succeeded on eu-1" in refused.stderr
    cloud.changes_synced()

    client = cloud.clusters["eu-1"].client
    (shared,) = ran(cloud, "origin", "twin")
    held = client.get("v1", "ConfigMap", shared, SPACE)
    assert (held["immutable"], held["data"]) == (True, programs.read_program_files("seal"))
    evil = {"data": {"seal.py": "import evil"}}
    why = refusal(client.patch, "v1", "ConfigMap", shared, evil, SPACE)
    assert "field is immutable when `immutable` is set" in (why or "")


def test_a_snapshot_is_taken_and_restored_into_a_new_storage(cloud: Cloud) -> None:
    cloud.declare(f"tenants/{TENANT}/snapshots/keep.yaml", SNAPSHOT.format(name="keep", storage="origin"))
    restored = CLONE.format(name="restored", source="snapshot", of="keep") + "  accessor: {exposure: Members}\n"
    cloud.declare(f"tenants/{TENANT}/storages/restored.yaml", restored)
    cloud.merged()
    storage_status = ready(cloud, "restored")
    assert storage_status.url == f"https://restored--files--{TENANT}.eu-1.gpu.northlight.example/"
    assert storage_status.in_cluster_url == f"http://restored--files.{SPACE}.svc:5000/"
    live = claim(cloud, "restored")
    assert live is not None
    source = live["spec"]["dataSourceRef"]
    assert (source["kind"], source["name"]) == ("VolumeSnapshot", "keep")

    def read_snapshot() -> Snapshot:
        snapshot_status = snapshot(cloud, "keep")
        assert snapshot_status.state == "Ready", snapshot_status
        return snapshot_status

    snapshot_status = eventually(read_snapshot, "the snapshot to be ready", 60)
    assert (snapshot_status.storage, snapshot_status.restore_size) == ("origin", "10Gi")
    assert "keep" in allot(cloud, "status", TENANT)
    cloud.changes_synced()


def test_the_accessor_of_a_volume_that_an_instance_holds_is_on_its_node(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    until(cloud, "webui", "Running", seconds=180)

    def nodes() -> list[str]:
        files = client.list("v1", "Pod", SPACE, "allotment.dev/storage=models,allotment.dev/role=files")
        return [
            server_pod["spec"].get("nodeName", "")
            for server_pod in files
            if server_pod["status"].get("phase") == "Running"
        ]

    (pod,) = pods(cloud, "webui")
    assert eventually(lambda: nodes() == [pod["spec"]["nodeName"]], "the accessor to be where the instance is", 60)
    assert "AccessorAvailable" in {
        condition.type for condition in ready(cloud, "models").conditions if condition.status == "True"
    }


def test_a_storage_grows(cloud: Cloud) -> None:
    cloud.edit(f"tenants/{TENANT}/storages/twin.yaml", "20Gi", "30Gi")
    cloud.merged()

    def grown() -> bool:
        storage_status = storage(cloud, "twin")
        resized = [condition.status for condition in storage_status.conditions if condition.type == "Resized"]
        return (storage_status.size, storage_status.capacity, resized) == ("30Gi", "30Gi", ["True"])

    assert eventually(grown, "the storage to be as large as declared", 120, pause=1)
    assert instance(cloud, "artist").state == "Running"


def test_a_prepared_shared_storage_is_open_for_copies_only(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    ready(cloud, "base-models", "northlight")

    def policy(name: str, space: str) -> Any:
        return client.get("networking.k8s.io/v1", "NetworkPolicy", name, space)["spec"]

    share = eventually(lambda: policy("share--base-models", "t-northlight"), "the share to be open", 120)
    assert share["podSelector"]["matchLabels"]["allotment.dev/role"] == "files"
    (peer,) = share["ingress"][0]["from"]
    assert peer["podSelector"]["matchLabels"] == {"allotment.dev/role": "copy"}
    read = policy("read--base", "t-studio-kite")
    assert read["podSelector"]["matchLabels"] == {"allotment.dev/storage": "base", "allotment.dev/role": "copy"}
    ready(cloud, "base", "studio-kite")
    jobs = client.list("batch/v1", "Job", "t-studio-kite", "allotment.dev/storage=base")
    (job,) = jobs
    assert job["spec"]["template"]["metadata"]["labels"]["allotment.dev/role"] == "copy"
    cloud.edit("tenants/northlight/storages/base-models.yaml", "    - tenants: All\n", "    - tenant: uni-lab\n")
    cloud.merged()

    def closed() -> bool:
        peers = policy("share--base-models", "t-northlight")["ingress"][0]["from"]
        names = [ingress_peer["namespaceSelector"].get("matchLabels", {}) for ingress_peer in peers]
        return names == [{"kubernetes.io/metadata.name": "t-uni-lab"}]

    assert eventually(closed, "the share to be as declared", 180)


def test_a_bucket_is_made_and_an_instance_gets_its_address_and_credentials(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    storage_status = ready(cloud, "datasets", "ml-orbit")
    assert (storage_status.reason, storage_status.size) == ("BucketBound", "1Ti")
    (pod,) = client.list("v1", "Pod", "t-ml-orbit", "allotment.dev/instance=lab")
    env = {variable["name"]: variable for variable in pod["spec"]["containers"][0]["env"]}
    assert env["AWS_SECRET_ACCESS_KEY"]["valueFrom"]["secretKeyRef"]["name"] == "datasets"
    assert env["AWS_ENDPOINT_URL"]["value"] == "http://rook-ceph-rgw-objects.rook-ceph.svc"


def test_nobody_deletes_a_snapshot_or_a_bucket_by_hand_and_no_lost_file_does(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    for api_version, kind, name, space in (
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "keep", SPACE),
        ("objectbucket.io/v1alpha1", "ObjectBucketClaim", "datasets", "t-ml-orbit"),
        ("v1", "PersistentVolumeClaim", "twin", SPACE),
    ):
        message = refusal(client.delete, api_version, kind, name, space)
        assert message is not None
        assert "Allotment protects this" in message
    paths = [f"tenants/{TENANT}/snapshots/keep.yaml", f"tenants/{TENANT}/storages/restored.yaml"]
    for path in paths:
        (cloud.root / path).unlink()
    cloud.merged()
    problems = cloud.running.event("tenant kept", tenant=TENANT)["problems"]
    assert any("snapshot keep would be deleted" in problem for problem in problems)
    cloud.changes_synced()
    assert client.get("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "keep", SPACE)["status"]["readyToUse"]
    git(cloud.root, "checkout", "-q", "HEAD^", "--", *paths)
    cloud.merged()


def test_a_snapshot_goes_in_two_merges_as_far_apart_as_is_declared(cloud: Cloud) -> None:
    client = cloud.clusters["eu-1"].client
    volume_snapshot = ("snapshot.storage.k8s.io/v1", "VolumeSnapshot", "keep", SPACE)
    claimed = ("v1", "PersistentVolumeClaim", "restored", SPACE)

    def gone() -> bool:
        for reference in (volume_snapshot, claimed):
            try:
                client.get(*reference)
            except NotFoundError:
                continue
            return False
        return True

    cloud.edit("platform/platform.yaml", "  images:\n", "  deletion:\n    after: 60s\n  images:\n")
    paths = [f"tenants/{TENANT}/snapshots/keep.yaml", f"tenants/{TENANT}/storages/restored.yaml"]
    for path in paths:
        cloud.edit(path, "spec:\n", "spec:\n  deletionPolicy: Delete\n")
    cloud.merged()

    def marked() -> bool:
        conditions = (*snapshot(cloud, "keep").conditions, *storage(cloud, "restored").conditions)
        return [condition.type for condition in conditions].count("MarkedForDeletion") == 2

    eventually(marked, "both to be seen marked", 60)
    begun = time.monotonic()
    for path in paths:
        (cloud.root / path).unlink()
    cloud.merged()
    leaving = [
        manifest for path, manifest in oracle.published(cloud, "eu-1") if path.endswith("--leaving.rendered.yaml")
    ]
    volumes = [manifest for manifest in leaving if manifest["kind"] in ("VolumeSnapshot", "PersistentVolumeClaim")]
    assert {volume["metadata"]["name"] for volume in volumes} == {"keep", "restored"}
    assert {volume["metadata"]["annotations"]["allotment.dev/protected"] for volume in volumes} == {"true"}
    assert not gone()
    eventually(gone, "both to be gone", 300, pause=1)
    assert time.monotonic() - begun > 30, "by the cluster's clock it was a minute"
    assert claim(cloud, "origin") is not None
    cloud.changes_synced()
