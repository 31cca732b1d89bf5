"""A storage's accessor as it is rendered, in a container: it shows files to whoever may reach it, large ones and many, and
changes them only with the mode ReadWrite."""

from __future__ import annotations

import errno
import filecmp
import hashlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import yaml

from allotment.declared.kinds.node_pool import NodePool
from allotment.manifests import names
from tests.conftest import copy_sample, edit
from tests.controlplane import crates, images, node, rendered, simulated
from tests.controlplane.client import Client
from tests.controlplane.cluster import PROJECT
from tests.controlplane.fixtures import Node
from tests.e2e.conftest import Render
from tests.e2e.node import pods
from tests.programs import volumes
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.node]
KITE = "t-studio-kite"
STORAGE = "outputs"
MEMORY = 256 << 20  # bytes, the container's limit
GIBI = 1 << 30
PIECE = 1 << 20


class Accessor(NamedTuple):
    """The accessor of a storage while it runs: its pod, the folder that is its volume, and its process on this machine."""

    client: Client
    pod: dict[str, Any]
    volume: Path
    process: psutil.Process

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        """Return the status and the bytes that it answers with."""
        with self.connected() as connection:
            connection.request(method, path, body=b"x" if method == "PUT" else None, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def connected(self) -> closing[http.client.HTTPConnection]:
        """Return a connection to the pod's address, closed in the end."""
        return closing(http.client.HTTPConnection(self.pod["status"]["podIP"], names.FILES_PORT, timeout=60))

    def counted(self, name: str) -> str:
        """Return what the kernel counts of the container's memory."""
        lines = Path(f"/proc/{self.process.pid}/cgroup").read_text(encoding="ascii").splitlines()
        place = next(line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory")
        return Path(f"/sys/fs/cgroup/memory{place}", f"memory.{name}").read_text(encoding="ascii")

    def check_unharmed(self) -> None:
        """Fail where the container was killed, or restarted."""
        now = self.client.get("v1", "Pod", self.pod["metadata"]["name"], KITE)
        (container_status,) = now["status"]["containerStatuses"]
        assert (container_status["restartCount"], container_status["ready"]) == (0, True)
        assert "oom_kill 0" in self.counted("oom_control").splitlines()


@pytest.fixture(scope="module")
def accessor(real_node: Node, sample_tree: Path) -> Iterator[Accessor]:
    """Return the accessor of studio-kite's storage once it runs, from what is rendered of the sample and nothing else.

    The node stands for one of the cluster's others, without GPUs and their taint: nothing is rendered by which an accessor of a
    volume that many nodes mount could run beside GPUs.
    """
    client = real_node.cluster.client
    node.pose(real_node.cluster, simulated.declared(PROJECT, "eu-1").of_kind(NodePool)["l4-ts4"].model)
    client.patch("v1", "Node", node.NAME, {"metadata": {"labels": {"nvidia.com/gpu.present": None}}})
    shared = ("platform/cluster/namespaces.rendered.yaml", "platform/cluster/priority-classes.rendered.yaml")
    space, storage = "control/namespaces/s/studio-kite.rendered.yaml", f"tenants/studio-kite/storage/{STORAGE}"
    objects = [*rendered.objects(sample_tree, *shared, space, f"{storage}.rendered.yaml")]
    (server,) = [manifest for manifest in objects if manifest["kind"] == "Deployment"]
    (container,) = server["spec"]["template"]["spec"]["containers"]
    node.take_in(real_node.world, {container["image"]: images.linked(crates.program("dufs"))})
    client.apply(*objects)
    pod = eventually(partial(_ready, client), "the accessor to be ready")
    claim = client.get("v1", "PersistentVolumeClaim", STORAGE, KITE)
    (process,) = [candidate for candidate in pods.processes_of(pod) if candidate.name() == "dufs"]
    yield Accessor(client, pod, node.volumes(real_node.cluster) / claim["metadata"]["uid"], process)
    rendered.clear(client)


def _ready(client: Client) -> dict[str, Any] | None:
    pods = client.list("v1", "Pod", KITE, f"{names.STORAGE}={STORAGE}")
    ready = [pod for pod in pods if any(part.get("ready") for part in pod["status"].get("containerStatuses", ()))]
    return ready[0] if ready else None


def listed(accessor: Accessor, path: str) -> set[str]:
    """Return the names that a folder is shown with."""
    status, page = accessor.ask(f"{path}?json")
    assert status == 200
    return {entry["name"] for entry in json.loads(page)["paths"]}


def test_the_file_server_shows_files_of_the_volume_but_not_internal_ones(accessor: Accessor) -> None:
    volumes.tree(accessor.volume)
    (accessor.volume / ".allotment").mkdir()
    (accessor.volume / ".allotment" / "complete").write_text("{}")
    assert listed(accessor, "/") >= {"models", "empty", "run.sh", "a b\n#?%é", "sparse"}
    assert ".allotment" not in listed(accessor, "/")
    weights = accessor.volume / "models" / "sdxl" / "weights.safetensors"
    assert accessor.ask("/models/sdxl/weights.safetensors") == (200, weights.read_bytes())
    assert accessor.ask("/a%20b%0A%23%3F%25%C3%A9") == (200, b"strange")
    assert accessor.ask("/../../etc/hosts")[0] in (400, 403, 404)
    assert accessor.ask("/%2e%2e/%2e%2e/etc/hosts")[0] in (400, 403, 404)


def test_a_link_leads_out_of_the_volume_for_nobody(accessor: Accessor) -> None:
    (accessor.volume / "out").symlink_to("/etc/hosts")
    (accessor.volume / "whole").symlink_to("/")
    for path in ("/out", "/whole/", "/whole/etc/hosts", "/whole/proc/self/environ"):
        assert accessor.ask(path)[0] in (403, 404), path


def test_ten_thousand_files_are_listed_within_its_memory(accessor: Accessor) -> None:
    volumes.many(accessor.volume, 10_000)
    status, page = accessor.ask("/flat/")
    assert (status, page.count(b"<html")) == (200, 1)
    assert len(listed(accessor, "/flat/")) == 9_000
    assert listed(accessor, "/deep/7/7/") >= {"7.bin", "107.bin", "907.bin"}
    assert accessor.ask("/flat/008999.txt") == (200, b"8999")
    accessor.check_unharmed()
    most, resident = int(accessor.counted("max_usage_in_bytes")), accessor.process.memory_info().rss
    assert resident < MEMORY // 2
    assert most < MEMORY
    print(f"10,000 files: {most >> 20} MiB at most with what the kernel keeps, {resident >> 20} MiB of its own now")


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("0-0", 0, 0), ("1000-1999", 1000, 1999), ("299990-", 299990, 299999), ("-5", 299995, 299999)],
)
def test_a_range_of_a_file_is_exactly_that(accessor: Accessor, wanted: str, first: int, last: int) -> None:
    data = os.urandom(300_000)
    (accessor.volume / "ranges.bin").write_bytes(data)
    with accessor.connected() as connection:
        connection.request("GET", "/ranges.bin", headers={"Range": f"bytes={wanted}"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Range"]) == (206, f"bytes {first}-{last}/300000")
        assert answer.read() == data[first : last + 1]


def test_a_range_beyond_the_end_is_refused(accessor: Accessor) -> None:
    (accessor.volume / "short").write_bytes(b"short")
    assert accessor.ask("/short", Range="bytes=9-")[0] == 416


def test_a_download_of_two_gibibytes_comes_whole(accessor: Accessor) -> None:
    large = accessor.volume / "large.safetensors"
    with large.open("wb") as file:
        file.truncate(2 * GIBI)
        for at in range(0, 2 * GIBI, GIBI // 4):
            file.seek(at)
            file.write(os.urandom(PIECE))
    with large.open("rb") as file:
        expected = hashlib.file_digest(file, "sha256").hexdigest()
    came, length = hashlib.sha256(), 0
    with accessor.connected() as connection:
        connection.request("GET", "/large.safetensors")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Length"]) == (200, str(2 * GIBI))
        while piece := answer.read(PIECE):
            came.update(piece)
            length += len(piece)
    large.unlink()
    assert (length, came.hexdigest()) == (2 * GIBI, expected)
    accessor.check_unharmed()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "MKCOL", "PATCH", "MOVE", "COPY"])
def test_nothing_can_be_written_through_it(accessor: Accessor, method: str) -> None:
    existing_file = accessor.volume / "kept.txt"
    existing_file.write_text("kept")
    where = {"Destination": f"http://{accessor.pod['status']['podIP']}:{names.FILES_PORT}/moved.txt"}
    assert accessor.ask("/kept.txt", method, **where)[0] in (403, 405)
    assert accessor.ask("/new", method, **where)[0] in (403, 404, 405)
    assert existing_file.read_text() == "kept"
    assert not {"new", "moved.txt"} & set(os.listdir(accessor.volume))


@pytest.mark.parametrize("folder", ["data", "", "tmp", "etc"])
def test_all_that_it_sees_is_read_only(accessor: Accessor, folder: str) -> None:
    """Also to this machine's root, which no right holds back."""
    with pytest.raises(OSError, match="Read-only file system") as refused:
        Path(f"/proc/{accessor.process.pid}/root", folder, "new").write_bytes(b"x")
    assert refused.value.errno == errno.EROFS


def test_the_file_server_has_no_token_and_no_right_of_root(accessor: Accessor) -> None:
    inside = Path(f"/proc/{accessor.process.pid}")
    places = [line.split()[4] for line in (inside / "mountinfo").read_text(encoding="utf-8").splitlines()]
    assert "/data" in places
    assert not [place for place in places if "secrets" in place]
    assert not (inside / "root" / "var" / "run" / "secrets").exists()
    environment = (inside / "environ").read_bytes().split(b"\0")
    assert not [variable for variable in environment if variable.startswith(b"OUTPUTS_")]
    status = dict(line.split(":\t", 1) for line in (inside / "status").read_text(encoding="ascii").splitlines())
    assert {status[name] for name in ("CapEff", "CapBnd", "CapPrm")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    _, outside, _ = pods.uid_map(accessor.process)
    assert outside >= 65536


def test_the_file_server_ends_at_once_so_that_the_next_can_begin(accessor: Accessor) -> None:
    """dufs is deaf to SIGTERM, and a kubelet gives a pod half a minute unless it is told otherwise."""
    accessor.client.delete("v1", "Pod", accessor.pod["metadata"]["name"], KITE)
    eventually(lambda: not accessor.process.is_running(), "the accessor to end", 15)

    def next_one() -> dict[str, Any] | None:
        pod = _ready(accessor.client)
        return pod if pod and pod["metadata"]["uid"] != accessor.pod["metadata"]["uid"] else None

    eventually(next_one, "the next one to be ready", 30)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return declarations in which the storage declares the mode ReadWrite."""
    root = tmp_path_factory.mktemp("writing") / "repo"
    copy_sample(root)
    edit(root, f"tenants/studio-kite/storages/{STORAGE}.yaml", "  accessor:\n", "  accessor:\n    mode: ReadWrite\n")
    return root


@pytest.fixture(scope="module")
def writer(accessor: Accessor, render: Render, repository: Path) -> Accessor:
    """Return the same accessor after its storage declares the mode ReadWrite."""
    root = repository
    accessor.client.apply(
        *rendered.objects(render(root, "eu-1"), f"tenants/studio-kite/storage/{STORAGE}.rendered.yaml")
    )

    def writing_pod() -> dict[str, Any] | None:
        pod = _ready(accessor.client)
        return pod if pod and "--allow-upload" in pod["spec"]["containers"][0]["args"] else None

    pod = eventually(writing_pod, "the accessor that writes to be ready", 60)
    (process,) = [candidate for candidate in pods.processes_of(pod) if candidate.name() == "dufs"]
    return accessor._replace(pod=pod, process=process)


def test_an_upload_larger_than_its_memory_is_a_file_of_the_users_of_instances(writer: Accessor) -> None:
    piece, digest = os.urandom(PIECE), hashlib.sha256()
    with writer.connected() as connection:
        connection.putrequest("PUT", "/uploaded.safetensors")
        connection.putheader("Content-Length", str(2 * MEMORY))
        connection.endheaders()
        for _ in range(2 * MEMORY // PIECE):
            digest.update(piece)
            connection.send(piece)
        assert connection.getresponse().status == 201
    assert writer.ask("/uploaded.safetensors?hash") == (200, digest.hexdigest().encode())
    status = (writer.volume / "uploaded.safetensors").stat()
    # Root inside a pod is root on a volume, whichever users of the machine a pod has (an idmapped mount).
    assert (status.st_size, status.st_uid, status.st_mode & 0o777) == (2 * MEMORY, 0, 0o644)
    (writer.volume / "uploaded.safetensors").unlink()
    writer.check_unharmed()
    print(
        f"{2 * MEMORY >> 20} MiB: {int(writer.counted('max_usage_in_bytes')) >> 20} MiB at most with what the kernel keeps"
    )


@pytest.mark.parametrize("folder", ["", "tmp", "etc"])
def test_a_writer_still_sees_a_read_only_root(folder: str, writer: Accessor) -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        Path(f"/proc/{writer.process.pid}/root", folder, "new").write_bytes(b"x")


def copy_command(repository: Path, kubeconfig: Path | str, *words: str | Path) -> list[str]:
    """Return a command that copies files with the rights of a kubeconfig."""
    options = ["--repo", str(repository), "--kubeconfig", str(kubeconfig)]
    return [sys.executable, "-m", "allotment", "storage", "cp", *options, *map(str, words)]


def test_the_command_continues_an_upload_after_it_was_killed(
    writer: Accessor, real_node: Node, repository: Path, tmp_path: Path
) -> None:
    kubeconfig, size = real_node.cluster.kubeconfig, MEMORY
    source, partial = tmp_path / "model.safetensors", ".allot-upload-*"
    with source.open("wb") as file:
        for _ in range(size // PIECE):
            file.write(os.urandom(4096) * (PIECE // 4096))
    command = copy_command(repository, kubeconfig, "-o", "json", source, "studio-kite/outputs:/models/")

    def is_far() -> bool:
        return any(path.stat().st_size > size * 2 // 5 for path in (writer.volume / "models").glob(partial))

    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        eventually(is_far, "two fifths to be uploaded", 120)
        process.kill()
    assert not (writer.volume / "models/model.safetensors").exists()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert (summary["copiedFiles"], summary["unchangedFiles"]) == (1, 0)
    assert 0 < summary["sentBytes"] < size * 7 // 10
    assert not list((writer.volume / "models").glob(partial))
    assert filecmp.cmp(source, writer.volume / "models/model.safetensors", shallow=False)
    back = copy_command(repository, kubeconfig, "studio-kite/outputs:/models", tmp_path / "back")
    subprocess.run(back, check=True, timeout=300)
    assert filecmp.cmp(source, tmp_path / "back/model.safetensors", shallow=False)
    (writer.volume / "models/model.safetensors").unlink()
    writer.check_unharmed()


def test_the_command_copies_nothing_for_a_neighbour(
    writer: Accessor, real_node: Node, repository: Path, tmp_path: Path
) -> None:
    config = yaml.safe_load(Path(real_node.cluster.kubeconfig).read_text(encoding="utf-8"))
    account = writer.client.as_service_account("default", "t-studio-kite")
    config["users"] = [{"name": each["name"], "user": {"token": account.token}} for each in config["users"]]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "a.bin").write_bytes(b"a")
    command = copy_command(repository, kubeconfig, tmp_path / "a.bin", "studio-kite/outputs:/")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "your kubeconfig doesn't let you list pods and forward ports in namespace t-studio-kite" in done.stderr
    assert not (writer.volume / "a.bin").exists()


def test_a_killed_writer_leaves_a_beginning_of_the_upload(writer: Accessor) -> None:
    data = os.urandom(8 * PIECE)
    with writer.connected() as connection:
        connection.putrequest("PUT", "/cut.bin")
        connection.putheader("Content-Length", str(GIBI))
        connection.endheaders()
        connection.send(data)
        eventually(lambda: _size(writer.volume / "cut.bin") >= 4 * PIECE, "most of it to be written", 15)
        writer.client.delete("v1", "Pod", writer.pod["metadata"]["name"], KITE)
        eventually(lambda: not writer.process.is_running(), "the writer to end", 15)
    written = (writer.volume / "cut.bin").read_bytes()
    assert written == data[: len(written)]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
