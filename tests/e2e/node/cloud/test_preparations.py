"""Preparations on a real node: each kind of source fills a real volume, is killed in the middle, goes on, and never runs twice."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from allotment.manifests import names
from allotment.programs import volume
from tests.controlplane import images, internet, node
from tests.controlplane.client import Object
from tests.controlplane.fixtures import Node
from tests.e2e.cloud import Cloud
from tests.e2e.node.conftest import SPACE, TENANT, declare_all
from tests.e2e.node.pods import processes_of
from tests.programs.volumes import content, files
from tests.support.cloud_status import storage
from tests.support.cloud_storage import SNAPSHOT
from tests.support.published import EMPTY_STORAGE
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
FETCHER = f"registry.example/tools/fetcher:1@sha256:{'f' * 64}"
# A program of a tenant's: it goes on from what it finds, and notes each time that it begins.
PARTS, HELD_PARTS = 12, 4
FETCHES = (
    "trap exit TERM; echo began >> /workspace/begun; i=$(ls /workspace/parts 2>/dev/null | wc -l); mkdir -p /workspace/parts;"
    f" while test $i -lt {PARTS}; do echo $i > /workspace/parts/$i; i=$((i+1));"
    f" until test $i -lt {HELD_PARTS} -o -e /workspace/go; do sleep 0.2 & wait $!; done; done"
)
MANY = 40_000
MODEL = 12_000_000  # bytes
COPY = "programs.copy_folder"
KINDS = ("of-image", "of-storage", "of-url", "of-s3")
SOURCE = """\
{storage}\
  prepare:
    source:
{source}
"""
BUCKET_KEYS = """\
apiVersion: allotment.dev/v1alpha1
kind: SecretReference
metadata:
  name: bucket-keys
spec:
  cluster: eu-1
  keys:
    - name: AWS_ACCESS_KEY_ID
      path: bucket-keys
    - name: AWS_SECRET_ACCESS_KEY
      path: bucket-keys
"""
CLONED = "block-ssd"  # whose driver clones; shared-files are copied by ours
SHARED = EMPTY_STORAGE.replace(CLONED, "shared-files").replace("20Gi", "50Gi")


def declared(name: str, source: str, of: str = SHARED) -> dict[str, str]:
    """Return a storage's declaration by its path."""
    indented = "\n".join(f"      {line}" for line in source.splitlines())
    return {f"tenants/{TENANT}/storages/{name}.yaml": SOURCE.format(storage=of.format(name=name), source=indented)}


class Bench:
    """A cloud on a real node, and what its preparations are made of and fill."""

    def __init__(self, cloud: Cloud, real_node: Node) -> None:
        self.cloud = cloud
        self.node = real_node
        self.client = real_node.cluster.client

    def folder(self, name: str) -> Path:
        """Return the folder that is a storage's volume."""
        claim = self.client.get("v1", "PersistentVolumeClaim", name, SPACE)
        return node.volumes(self.node.cluster) / str(claim["metadata"]["uid"])

    def job(self, name: str) -> Object:
        """Return a storage's Job."""
        (job,) = self.client.list("batch/v1", "Job", SPACE, f"{names.STORAGE}={name}")
        return job

    def ready(self, *wanted: str, seconds: float = 120) -> None:
        """Wait until the status says that storages are ready."""

        def all_ready() -> bool:
            storage_statuses = [storage(self.cloud, name, TENANT) for name in wanted]
            assert all(storage_status.state == "Ready" for storage_status in storage_statuses), [
                (storage_status.name, storage_status.state, storage_status.reason, storage_status.message)
                for storage_status in storage_statuses
            ]
            return True

        eventually(all_ready, f"{wanted} to be ready", seconds)

    def pods(self, name: str) -> list[Object]:
        """Return the pods that a storage's Job had."""
        return self.client.list(
            "v1", "Pod", SPACE, f"batch.kubernetes.io/job-name={self.job(name)['metadata']['name']}"
        )

    def working(self) -> list[psutil.Process]:
        """Return the processes in containers that fill volumes: those of ours, and a tenant's."""
        wanted = {COPY, "programs.fetch_url", "programs.fetch_s3", FETCHES}
        running = [
            pod for name in KINDS for pod in self.pods(name) if pod["status"].get("phase") in ("Pending", "Running")
        ]
        workers = []
        for process in (process for pod in running for process in processes_of(pod)):
            with suppress(psutil.NoSuchProcess):  # a probe's, or what a program started for a moment
                workers += [process] if wanted & {*process.cmdline()} else []
        return workers

    def has_begun(self, name: str) -> bool:
        """Return whether something of what is to come lies on a volume."""
        root = self.folder(name)
        of = {"of-image": "parts/*", "of-storage": "deep/*"}.get(name, f"{volume.OWN}/part-*")
        return any(path.stat().st_size for path in root.glob(of))


@pytest.fixture(scope="module")
def bench(real_cloud: Cloud, real_node: Node) -> Iterator[Bench]:
    """Return the cloud with a storage `origin` full of files, and the internet with a model and a bucket."""
    node.take_in(real_node.world, {FETCHER: images.busybox("/bin/sh", "-c", FETCHES)})
    new_bench = Bench(real_cloud, real_node)
    declare_all(
        real_cloud,
        {
            f"tenants/{TENANT}/storages/{name}.yaml": of.format(name=name)
            for name, of in (("origin", SHARED), ("block", EMPTY_STORAGE))
        },
    )
    new_bench.ready("origin", "block")
    deep = new_bench.folder("origin") / "deep"
    deep.mkdir()
    for number in range(MANY):
        (deep / f"{number:06}.txt").write_bytes(b"%d" % number)
    (new_bench.folder("block") / "weights").write_bytes(os.urandom(MODEL))
    served = internet.files(real_node.world)
    (served / "model.bin").write_bytes(os.urandom(MODEL))
    objects = internet.buckets(real_node.world) / "data" / "sets"
    objects.mkdir(parents=True)
    for name in ("a.bin", "b.bin"):
        (objects / name).write_bytes(os.urandom(MODEL))
    yield new_bench


@pytest.fixture(scope="module")
def prepared(bench: Bench) -> Bench:
    """Return the cloud once a storage of each kind of source is ready, whose preparations were killed on their way: their
    processes, the kubelet, and the whole node."""
    world = bench.node.world
    digest = hashlib.sha256((internet.files(world) / "model.bin").read_bytes()).hexdigest()
    keys = {"AWS_ACCESS_KEY_ID": internet.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": internet.SECRET_KEY}
    secret = {"metadata": {"name": names.secret_name("bucket-keys"), "namespace": SPACE}, "stringData": keys}
    bench.client.apply({"apiVersion": "v1", "kind": "Secret", **secret})
    s3 = "s3: {endpoint: https://s3.example.com, bucket: data, prefix: sets/, secretRef: {name: bucket-keys}}"
    declare_all(
        bench.cloud,
        {
            f"tenants/{TENANT}/snapshots/kept.yaml": SNAPSHOT.format(name="kept", storage="block"),
            **declared("of-image", f"image: {{image: '{FETCHER}'}}"),
            **declared("of-storage", "storage: {name: origin}"),
            **declared("of-clone", "storage: {name: block}", EMPTY_STORAGE),
            **declared("of-snapshot", "snapshot: {name: kept}", EMPTY_STORAGE),
            **declared("of-url", f"url: {{url: 'https://models.example.com/model.bin', sha256: {digest}}}"),
            f"tenants/{TENANT}/secrets/bucket-keys.yaml": BUCKET_KEYS,
            **declared("of-s3", s3),
        },
    )
    with internet.held(world):
        for process in in_the_middle(bench):
            process.kill()
        eventually(lambda: {len(bench.pods(name)) for name in KINDS} == {2}, "the Jobs' next pods", 90)
        working = in_the_middle(bench)
        node.kill(bench.node.cluster, "kubelet")
        node.run(bench.node.cluster, world, "kubelet")
        assert {process.pid for process in bench.working()} == {process.pid for process in working}, (
            "they go on without it"
        )
        node.stop(bench.node.cluster)
        node.boot(bench.node.cluster)
        eventually(lambda: {len(bench.pods(name)) for name in KINDS} == {3}, "the Jobs' last pods", 120)
        (copying,) = [process for process in in_the_middle(bench) if COPY in process.cmdline()]
    (bench.folder("of-image") / "go").touch()
    copying.send_signal(signal.SIGCONT)
    bench.ready(*KINDS, "of-clone", "of-snapshot", seconds=180)
    return bench


def in_the_middle(bench: Bench) -> list[psutil.Process]:
    """Return the processes that fill the volumes, each of them on its way: what would soon be done is halted there."""

    def all_are() -> list[psutil.Process]:
        workers = bench.working()
        for process in workers:
            if COPY in process.cmdline() and any((bench.folder("of-storage") / "deep").glob("*")):
                process.send_signal(signal.SIGSTOP)
        assert len(workers) == len(KINDS), [process.cmdline() for process in workers]
        assert all(bench.has_begun(name) for name in KINDS)
        assert [
            process for process in workers if COPY in process.cmdline() and process.status() == psutil.STATUS_STOPPED
        ]
        return workers

    workers = eventually(all_are, "all preparations to be on their way", 90, pause=0.02)
    assert not any(volume.is_complete(str(bench.folder(name)), bench.job(name)["metadata"]["name"]) for name in KINDS)
    return workers


def test_each_kind_of_source_fills_its_volume(prepared: Bench) -> None:
    world = prepared.node.world
    assert content(prepared.folder("of-storage") / "deep") == content(prepared.folder("origin") / "deep")
    assert len(list((prepared.folder("of-storage") / "deep").iterdir())) == MANY
    assert files(prepared.folder("of-url")) == {"model.bin": (internet.files(world) / "model.bin").read_bytes()}
    assert files(prepared.folder("of-s3")) == files(internet.buckets(world) / "data" / "sets")
    assert (
        files(prepared.folder("of-clone")) == files(prepared.folder("of-snapshot")) == files(prepared.folder("block"))
    )
    parts = prepared.folder("of-image") / "parts"
    assert {int(part.name): part.read_text(encoding="ascii") for part in parts.iterdir()} == {
        number: f"{number}\n" for number in range(PARTS)
    }


def test_a_killed_preparation_continues_from_the_files_on_the_volume(prepared: Bench) -> None:
    """Each went three times: killed, the node gone, done. What had come by then isn't fetched again."""
    assert (prepared.folder("of-image") / "begun").read_text(encoding="ascii") == "began\n" * 3
    byte_ranges = [
        line.rpartition("bytes=")[2] for line in internet.asked_of_files(prepared.node.world) if "bytes=" in line
    ]
    begins = [int(byte_range.partition("-")[0]) for byte_range in byte_ranges if byte_range[:1].isdigit()]
    assert len([at for at in begins if at > 0]) >= 2, internet.asked_of_files(prepared.node.world)
    for name in KINDS:
        storage_status = storage(prepared.cloud, name, TENANT)
        assert storage_status.prepare is not None
        assert (storage_status.prepare.state, storage_status.prepare.attempt, storage_status.prepare.exit_code) == (
            "Succeeded",
            1,
            0,
        )


def test_a_complete_storage_is_never_prepared_again(prepared: Bench) -> None:
    """A Job that somebody deletes comes back, and finds its volume complete."""

    roots = {name: prepared.folder(name) for name in KINDS}

    def marks() -> dict[str, tuple[int, int]]:
        return {
            f"{name}/{path.relative_to(root)}": (path.stat().st_ino, path.stat().st_mtime_ns)
            for name, root in roots.items()
            for path in root.rglob("*")
            if path.is_file() and volume.OWN not in path.parts
        }

    before, jobs = marks(), {name: prepared.job(name)["metadata"] for name in KINDS}
    for job in jobs.values():
        prepared.client.delete("batch/v1", "Job", job["name"], SPACE)

    states: set[str] = set()

    def ended() -> bool:
        states.update(storage(prepared.cloud, name, TENANT).state for name in KINDS)
        live_jobs = [prepared.job(name) for name in KINDS]
        assert not {live_job["metadata"]["uid"] for live_job in live_jobs} & {
            metadata["uid"] for metadata in jobs.values()
        }
        return all(live_job["status"].get("succeeded") or live_job["status"].get("failed") for live_job in live_jobs)

    eventually(ended, "the Jobs to end once more", 120)
    assert marks() == before
    prepared.ready(*KINDS)
    assert states == {"Ready"}, "a volume that is complete is not reported as being prepared"
