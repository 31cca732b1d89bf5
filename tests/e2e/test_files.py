"""The programs that fill volumes and the one that shows them, as they are run in pods, with real files: dufs serves, an S3 server
answers, a copy is killed on its way."""

from __future__ import annotations

import datetime
import hashlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from allotment.manifests.tenant.accessor import WRITER_ARGS
from allotment.programs import ending, texts, volume
from allotment.programs.download import Web
from allotment.programs.fetch_s3 import Bucket, fetch
from allotment.programs.signature import Credentials, signed
from tests.controlplane import crates
from tests.controlplane.processes import free_ports
from tests.programs import volumes
from tests.programs.server import local
from tests.programs.volumes import MANY, content, files, tree
from tests.support.served_files import get, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e

GIBI = 1024**3
JOB = "mine--prepare-0123456789-1"
NEXT = "mine--prepare-0123456789-2"
COPIED = 5_000  # files: the copies that are killed take some seconds each
ACCESSOR_MEMORY = 256 * 1024**2  # bytes, of the accessor's container


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that has the programs as a pod's ConfigMap has them."""
    folder = tmp_path_factory.mktemp("allotment") / "programs"
    folder.mkdir()
    for name, text in texts("check", "copy_folder", "copy_shared", "hold", "seal").items():
        (folder / name).write_text(text)
    return folder.parent


def run(programs: Path, program: str, *arguments: str) -> list[str]:
    """Return the command that a pod runs, but for its interpreter's own packages, which are none in its image."""
    path = f"import sys; sys.path.insert(0, {str(programs)!r}); import runpy; runpy.run_module('programs.{program}', run_name='__main__')"
    return [sys.executable, "-I", "-S", "-c", path, *arguments]


def resident(process: subprocess.Popen[bytes]) -> int:
    """Return the most memory that a process ever held, in bytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a volume with a hundred thousand files, most of them in one folder."""
    root = tmp_path_factory.mktemp("many")
    volumes.many(root)
    return root


@pytest.fixture(scope="module")
def tree_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a volume with COPIED files, most of them in one folder."""
    root = tmp_path_factory.mktemp("tree")
    volumes.many(root, COPIED)
    return root


def test_the_accessor_lists_a_hundred_thousand_files_and_changes_none(many: Path) -> None:
    port = next(free_ports())
    volume.complete(str(many), JOB)
    with served(many, port) as process:
        began = time.monotonic()
        status, page = get(port, "/flat/")
        took = time.monotonic() - began
        assert (status, page.count(b"<html")) == (200, 1)
        listed = json.loads(get(port, "/flat/?json")[1])["paths"]
        assert len(listed) == MANY - 1000
        assert {entry["name"] for entry in json.loads(get(port, "/?json")[1])["paths"]} == {"flat", "deep"}
        assert get(port, "/flat/000007.txt") == (200, b"7")
        for method in ("PUT", "DELETE", "MKCOL"):
            assert get(port, "/flat/000007.txt", method)[0] in (403, 405)
        assert get(port, "/../../etc/passwd")[0] in (400, 403, 404)
        assert resident(process) < ACCESSOR_MEMORY
    print(f"100,000 files: {took:.1f} s, {len(page) / 1e6:.1f} MB")


def test_an_upload_arrives_whole_and_continues_where_it_broke_off(tmp_path: Path) -> None:
    port, data = next(free_ports()), os.urandom(30 << 20)
    with served(tmp_path, port, WRITER_ARGS) as process:
        assert get(port, "/models", "MKCOL")[0] == 201
        assert get(port, "/absent/a.bin", "PUT")[0] == 404
        with socket.create_connection(("127.0.0.1", port)) as connection:  # breaks off
            connection.sendall(f"PUT /models/new HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode())
            connection.sendall(data[: 25 << 20])
        eventually(lambda: not open_files(process, tmp_path), "the server to close the file", 20)
        size = (tmp_path / "models/new").stat().st_size
        assert 20 << 20 <= size < len(data), "a cut below 20 MiB leaves nothing"
        assert (tmp_path / "models/new").read_bytes() == data[:size]
        assert get(port, "/models/new", "PATCH", data[size:], X_Update_Range="append")[0] == 204
        assert get(port, "/models/new?hash") == (200, hashlib.sha256(data).hexdigest().encode())
        (tmp_path / "models/a.bin").write_bytes(b"before")
        assert get(port, "/models/new", "MOVE", Destination="/models/a.bin")[0] == 204
        assert get(port, "/models/a.bin") == (200, data)
        assert os.listdir(tmp_path / "models") == ["a.bin"]
        assert resident(process) < ACCESSOR_MEMORY // 4


def open_files(process: subprocess.Popen[bytes], folder: Path) -> list[str]:
    """Return the files of a folder that a process has open."""
    return [file.path for file in psutil.Process(process.pid).open_files() if file.path.startswith(str(folder))]


def test_an_upload_to_a_full_volume_fails(tmp_path: Path) -> None:
    port = next(free_ports())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path], check=True)
    try:
        with served(tmp_path, port, WRITER_ARGS):
            assert get(port, "/large", "PUT", bytes((2 << 20) + (64 << 10)))[0] == 500
            assert os.listdir(tmp_path) == []
            assert get(port, "/small", "PUT", b"fits")[0] == 201
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_page_of_another_origin_gets_no_consent_to_write(tmp_path: Path) -> None:
    """A browser asks first (a CORS preflight), except for a form, which sends a POST."""
    port, evil = next(free_ports()), "https://evil.example"
    with served(tmp_path, port, WRITER_ARGS):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("OPTIONS", "/", headers={"Origin": evil, "Access-Control-Request-Method": "PUT"})
        names = [name.lower() for name, _ in connection.getresponse().getheaders()]
        connection.close()
        assert not [name for name in names if name.startswith("access-control-")]
        assert get(port, "/a.bin", "POST", b"x", Origin=evil)[0] == 405
    assert os.listdir(tmp_path) == []


def test_an_upload_leaves_the_volume_by_no_link_and_no_path(tmp_path: Path) -> None:
    root, port = tmp_path / "root", next(free_ports())
    root.mkdir()
    (root / "up").symlink_to(tmp_path)
    with served(root, port, WRITER_ARGS):
        for path in ("/up/a", "/../a", "/%2e%2e/a", "/..%2fa"):
            assert get(port, path, "PUT")[0] in (400, 403, 404), path
        (root / "b").write_bytes(b"b")
        assert get(port, "/b", "MOVE", Destination="/up/a")[0] == 400
    assert os.listdir(tmp_path) == ["root"]


def kill_again_and_again(command: list[str], target: Path, seed: int) -> None:
    """Run a copy of COPIED files five times, and kill it each time that some more files are on the volume `target`."""
    for count in sorted(random.Random(seed).sample(range(COPIED - 1000), 5)):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(partial(has_files, target, count), f"{count} files to be there", pause=0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not volume.is_complete(str(target), JOB)


def has_files(folder: Path, count: int) -> bool:
    return sum(len(names) for _, _, names in os.walk(folder)) >= count


def test_a_shared_copy_is_killed_again_and_again_and_ends_whole(
    programs: Path, tree_to_copy: Path, tmp_path: Path
) -> None:
    port, target = next(free_ports()), tmp_path / "target"
    target.mkdir()
    command = run(programs, "copy_shared", f"--volume={target}", f"--job={JOB}", f"--source=http://127.0.0.1:{port}/")
    with served(tree_to_copy, port):
        kill_again_and_again(command, target, seed=8)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{COPIED} files copied\n"), done.stderr
    assert volume.is_complete(str(target), JOB)
    assert files(target) == files(tree_to_copy)


def test_a_shared_copy_of_a_strange_tree_brings_only_safe_files(programs: Path, tmp_path: Path) -> None:
    source, target, port = tmp_path / "source", tmp_path / "target", next(free_ports())
    for folder in (source, target):
        folder.mkdir()
    tree(source)
    command = run(programs, "copy_shared", f"--volume={target}", f"--job={JOB}", f"--source=http://127.0.0.1:{port}/")
    with served(source, port):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left_out = {name for name in files(source) if name.startswith(("latest/", "dangling"))}
    assert files(target) == {name: data for name, data in files(source).items() if name not in left_out}
    assert "a link to a folder: 'latest'" in done.stderr


def test_a_folder_of_ten_gigabytes_that_are_mostly_holes(programs: Path, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    with open(source / "model", "wb") as file:
        file.truncate(10 * GIBI)
        for at in range(0, 10 * GIBI, GIBI):
            file.seek(at)
            file.write(os.urandom(4096))
    command = run(programs, "copy_folder", f"--source={source}", f"--volume={target}", f"--job={JOB}")
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    copied = (target / "model").stat()
    assert copied.st_size == 10 * GIBI
    assert copied.st_blocks * 512 < 64 * 1024**2
    with open(source / "model", "rb") as old, open(target / "model", "rb") as new:
        for at in range(0, 10 * GIBI, GIBI):
            for stream in (old, new):
                stream.seek(at)
            assert old.read(8192) == new.read(8192)
    print(f"10 GiB, sparse: {time.monotonic() - began:.1f} s")


def test_a_folder_copy_is_killed_again_and_again_and_ends_whole(
    programs: Path, tree_to_copy: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    command = run(programs, "copy_folder", f"--source={tree_to_copy}", f"--volume={target}", f"--job={JOB}")
    kill_again_and_again(command, target, seed=9)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{COPIED} files copied\n"), done.stderr
    assert content(target) == content(tree_to_copy)


def test_a_program_that_is_not_ours_writes_between_a_lock_and_a_marker(programs: Path, tmp_path: Path) -> None:
    """The pod of an image source: a check, the sidecar holds, the image writes, the seal comes last; and the next attempt waits."""
    root, held = tmp_path / "volume", tmp_path / "held"
    root.mkdir()

    def ends(program: str, job: str) -> int:
        command = run(programs, program, f"--volume={root}", f"--job={job}")
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode

    def hold(job: str, ready: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(run(programs, "hold", f"--volume={root}", f"--job={job}", f"--ready={ready}"))

    assert ends("check", JOB) == 0
    holder = hold(JOB, held)
    try:
        eventually(held.exists, "the lock", 20)
        (root / "model.bin").write_bytes(b"written by the image")
        second = hold(NEXT, tmp_path / "second")
        assert ends("seal", JOB) == 0
        time.sleep(0.5)
        assert not (tmp_path / "second").exists()
        holder.terminate()
        assert holder.wait(10) == 0
        eventually((tmp_path / "second").exists, "the next attempt's turn", 20)
        assert not volume.is_complete(str(root), JOB), "whoever writes next takes the marker away"
    finally:
        for process in (holder, second):
            process.kill()
            process.wait()
    assert ends("check", JOB) == ending.SUPERSEDED
    assert ends("check", NEXT) == 0, "it was killed, and goes on"
    assert ends("seal", NEXT) == 0
    assert volume.is_complete(str(root), NEXT)
    assert ends("check", NEXT) == ending.ALREADY_COMPLETE
    assert hold(NEXT, held).wait(20) == ending.ALREADY_COMPLETE
    assert not held.exists(), "the image's program doesn't begin again"


@contextmanager
def bucket(folder: Path) -> Iterator[str]:
    """Serve a folder's folders as buckets, to who signs with the right secret; yield the endpoint."""
    port = next(free_ports())
    command = [str(crates.program("s3s-fs")), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--access-key", "AKIDEXAMPLE", "--secret-key", "not-a-secret", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: get(port, "/")[0], "the S3 server to answer", 20)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def fetched(endpoint: str, secret: str, root: Path) -> None:

    def headers(url: str) -> dict[str, str]:
        now = datetime.datetime.now(datetime.UTC)
        return signed(url, Credentials("AKIDEXAMPLE", secret, "us-east-1"), now)

    web = Web(local, headers, wait=0.001)
    try:
        fetch(Bucket(web, endpoint, "data"), "models/", str(root))
    finally:
        web.close()


def test_a_real_s3_server_takes_our_signature_and_no_other(tmp_path: Path) -> None:
    buckets, root = tmp_path / "buckets", tmp_path / "volume"
    for folder in (buckets / "data" / "models" / "x y", root / volume.OWN):
        folder.mkdir(parents=True)
    (buckets / "data" / "models" / "big.bin").write_bytes(os.urandom(5_000_000))
    (buckets / "data" / "models" / "x y" / "é+%.txt").write_bytes(b"strange")
    (buckets / "data" / "other.txt").write_bytes(b"not this")
    with bucket(buckets) as endpoint:
        fetched(endpoint, "not-a-secret", root)
        assert files(root) == files(buckets / "data" / "models")
        with pytest.raises(ending.Failed) as failure:
            fetched(endpoint, "another", root)
        assert failure.value.status == ending.ACCESS_DENIED
