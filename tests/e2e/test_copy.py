"""Copies to and from a storage with the real file server: whole, resumed after a cut, refused, and never out of its folder."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from allotment.access.copy import transfer
from allotment.access.copy.download import download, plan_download
from allotment.access.copy.transfer import Progress
from allotment.access.copy.upload import plan_upload, upload
from allotment.adapters.file_server import FileServer, RemoteEntry, TransferError
from allotment.manifests.tenant.accessor import SERVER_ARGS, WRITER_ARGS
from allotment.problems import OperationRefused
from tests.controlplane.processes import free_ports
from tests.support.served_files import served

pytestmark = pytest.mark.e2e
MEBI = 1 << 20
STRANGE = "a b\n#?%é'\"&+;"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_FIRST_PAUSE_SECONDS", 0.05)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


@pytest.fixture
def port(volume: Path) -> Iterator[int]:
    """Return the port of a file server that writes."""
    port = next(free_ports())
    with served(volume, port, WRITER_ARGS):
        yield port


def opener(port: int) -> Callable[[], FileServer]:
    """Return a function that connects to a file server."""
    return lambda: FileServer(lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=60))


def send(port: int, source: Path, target: str, *, into_folder: bool = False) -> Progress:
    """Upload, and return the progress."""
    progress = Progress(0, None)
    upload(opener(port), plan_upload(source, target, into_folder), progress)
    return progress


def receive(port: int, remote: str, target: Path, *, into_folder: bool = False) -> Progress:
    """Download, and return the progress."""
    progress = Progress(0, None)
    with opener(port)() as server:
        plan = plan_download(server, remote, target, into_folder)
    download(opener(port), plan, progress)
    return progress


def content(root: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def make_tree(root: Path) -> Path:
    """Write files of many kinds below a folder."""
    (root / "deep" / STRANGE).mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "nothing").write_bytes(b"")
    (root / "deep" / STRANGE / STRANGE).write_bytes(b"strange")
    (root / ".hidden").write_bytes(b"hidden")
    (root / "large.bin").write_bytes(os.urandom(3 * MEBI + 7))
    for number in range(50):
        (root / "deep" / f"{number}.txt").write_text(str(number))
    return root


def test_a_folder_goes_there_and_back_unchanged(port: int, volume: Path, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source")
    (source / "link").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    plan = plan_upload(source, "/set", False)
    assert sorted(path.name for path, _ in plan.left_out) == ["link", "pipe"]
    progress = Progress(0, None)
    upload(opener(port), plan, progress)
    expected = content(source)
    del expected["link"]
    assert content(volume / "set") == expected
    assert (volume / "set" / "empty").is_dir()
    assert (progress.copied_files, progress.unchanged_files) == (len(expected), 0)
    again = send(port, source, "/set")
    assert (again.copied_files, again.unchanged_files, again.sent_bytes) == (0, len(expected), 0)
    back = receive(port, "/set", tmp_path / "back")
    assert content(tmp_path / "back") == expected
    assert (tmp_path / "back" / "empty").is_dir()
    assert back.copied_files == len(expected)
    assert receive(port, "/set/", tmp_path / "back").unchanged_files == len(expected)


def test_a_file_becomes_the_target_or_goes_into_a_folder(port: int, volume: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.bin"
    source.write_bytes(b"a")
    send(port, source, "/models/deep/b.bin")
    send(port, source, "/models/", into_folder=True)
    assert content(volume) == {"models/deep/b.bin": b"a", "models/a.bin": b"a"}
    source.write_bytes(b"new")
    assert send(port, source, "/models/a.bin").copied_files == 1
    assert (volume / "models/a.bin").read_bytes() == b"new"
    receive(port, "/models/a.bin", tmp_path)
    receive(port, "/models/a.bin", tmp_path / "other" / "c.bin")
    assert (tmp_path / "other" / "c.bin").read_bytes() == b"new"


class Cutter:
    """A way to a port that breaks off once, after some bytes in one direction, and never again."""

    def __init__(self, port: int, limit: int, *, cuts_answers: bool) -> None:
        self._port, self._left, self._cuts_answers = port, limit, cuts_answers
        self._lock = threading.Lock()
        self.cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def run(self) -> None:
        """Accept connections until the listener is closed."""
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            for source, sink, counts in ((near, far, not self._cuts_answers), (far, near, self._cuts_answers)):
                threading.Thread(target=self._copy, args=(source, sink, counts), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
                with self._lock:
                    self._left -= len(data) if counts else 0
                    cuts = counts and not self.cut and self._left < 0
                    self.cut = self.cut or cuts
                if cuts:
                    break
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        source.close()  # the thread of the other direction closes the other end

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def cutting(port: int, limit: int, *, cuts_answers: bool = False) -> Iterator[Cutter]:
    """Provide a way to a port that breaks off once."""
    cutter = Cutter(port, limit, cuts_answers=cuts_answers)
    threading.Thread(target=cutter.run, daemon=True).start()
    try:
        yield cutter
    finally:
        cutter.close()


@pytest.mark.parametrize("limit", [0, MEBI // 2, 12 * MEBI, 26 * MEBI, 40 * MEBI - 1])
def test_an_upload_continues_after_a_cut(limit: int, port: int, volume: Path, tmp_path: Path) -> None:
    source, data = tmp_path / "a.bin", os.urandom(40 * MEBI)
    source.write_bytes(data)
    with cutting(port, limit) as cutter:
        progress = send(cutter.port, source, "/a.bin")
        assert cutter.cut
    assert content(volume) == {"a.bin": data}
    assert progress.copied_files == 1


@pytest.mark.parametrize("limit", [0, MEBI // 2, 12 * MEBI, 26 * MEBI])
def test_a_download_continues_after_a_cut(limit: int, port: int, volume: Path, tmp_path: Path) -> None:
    data = os.urandom(40 * MEBI)
    (volume / "a.bin").write_bytes(data)
    with cutting(port, limit, cuts_answers=True) as cutter:
        receive(cutter.port, "/a.bin", tmp_path / "here" / "a.bin")
        assert cutter.cut
    assert content(tmp_path / "here") == {"a.bin": data}


def test_a_later_upload_sends_only_the_rest(
    port: int, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, data = tmp_path / "a.bin", os.urandom(50 * MEBI)
    source.write_bytes(data)
    monkeypatch.setattr(transfer, "_ATTEMPTS", 1)
    with cutting(port, 40 * MEBI) as cutter, pytest.raises(TransferError, match="the connection broke off"):
        send(cutter.port, source, "/a.bin")
    (partial,) = volume.iterdir()
    assert partial.name.startswith(".allot-upload-")
    written = partial.read_bytes()
    assert written == data[: len(written)]
    progress = send(port, source, "/a.bin")
    assert content(volume) == {"a.bin": data}
    assert len(written) >= 20 * MEBI, "the server deletes less than that"
    assert progress.sent_bytes <= len(data) - len(written) + MEBI, "an upload repeats the last MiB"


def test_an_upload_that_the_server_deletes_late_is_sent_again(
    port: int, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dufs deletes a small part of an upload when it notices that the connection broke, also after the rest has arrived."""
    source, data = tmp_path / "a.bin", os.urandom(12 * MEBI)
    source.write_bytes(data)
    read_hash = FileServer.read_hash
    deleted: list[str] = []

    def delete_and_read_hash(server: FileServer, path: str, size: int) -> str:
        if not deleted:
            (volume / path.lstrip("/")).unlink()
            deleted.append(path)
        return read_hash(server, path, size)

    monkeypatch.setattr(FileServer, "read_hash", delete_and_read_hash)
    progress = send(port, source, "/a.bin")
    assert [path.startswith("/.allot-upload-") for path in deleted] == [True]
    assert content(volume) == {"a.bin": data}
    assert progress.copied_files == 1


def test_an_upload_starts_again_if_the_server_deletes_its_part_before_the_rest_is_sent(
    port: int, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, data = tmp_path / "a.bin", os.urandom(40 * MEBI)
    source.write_bytes(data)
    write_file, starts = FileServer.write_file, list[int]()

    def delete_and_write_file(
        server: FileServer, path: str, pieces: Iterable[bytes], length: int, start: int = 0
    ) -> None:
        starts.append(start)
        if len(starts) == 2:
            (volume / path.lstrip("/")).unlink()
        write_file(server, path, pieces, length, start)

    monkeypatch.setattr(FileServer, "write_file", delete_and_write_file)
    with cutting(port, 30 * MEBI) as cutter:
        progress = send(cutter.port, source, "/a.bin")
        assert cutter.cut
    assert len(starts) == 3
    assert (starts[0], starts[1] > 0, starts[2]) == (0, True, 0)
    assert content(volume) == {"a.bin": data}
    assert progress.copied_files == 1


def interrupt_upload(port: int, limit: int, source: Path, volume: Path) -> Path:
    """Upload a file over a connection that is cut after some bytes, and return the only file of the volume: the part."""
    with cutting(port, limit) as cutter, pytest.MonkeyPatch.context() as patch, pytest.raises(TransferError):
        patch.setattr(transfer, "_ATTEMPTS", 1)
        send(cutter.port, source, "/a.bin")
    (partial,) = volume.iterdir()
    return partial


def test_another_content_does_not_continue_an_earlier_upload(
    port: int, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.bin"
    source.write_bytes(os.urandom(50 * MEBI))
    monkeypatch.setattr(transfer, "_ATTEMPTS", 1)
    with cutting(port, 30 * MEBI) as cutter, pytest.raises(TransferError):
        send(cutter.port, source, "/a.bin")
    source.write_bytes(b"other" * 10 * MEBI)
    send(port, source, "/a.bin")
    assert (volume / "a.bin").read_bytes() == source.read_bytes()


def test_a_damaged_part_of_an_upload_is_sent_again(port: int, volume: Path, tmp_path: Path) -> None:
    source, data = tmp_path / "a.bin", os.urandom(30 * MEBI)
    source.write_bytes(data)
    partial = interrupt_upload(port, 25 * MEBI, source, volume)
    with partial.open("r+b") as file:
        file.write(b"damage")
    send(port, source, "/a.bin")
    assert content(volume) == {"a.bin": data}


def test_an_upload_of_other_bytes_ends_with_an_error(
    port: int, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.bin").write_bytes(os.urandom(2 * MEBI))
    monkeypatch.setattr(transfer, "_ATTEMPTS", 2)
    monkeypatch.setattr(FileServer, "read_hash", lambda *_: "0" * 64)
    with pytest.raises(TransferError, match="the storage received other bytes"):
        send(port, tmp_path / "a.bin", "/a.bin")
    assert content(volume) == {}


def test_uploads_at_the_same_time_share_no_temporary_file(
    port: int, volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second upload runs while the first sends its file. After both, nothing but the file is left."""
    source, data = tmp_path / "a.bin", os.urandom(3 * MEBI)
    source.write_bytes(data)
    write_file, seen = FileServer.write_file, list[str]()

    def send_another(server: FileServer, path: str, pieces: Iterable[bytes], length: int, start: int = 0) -> None:
        seen.append(path)
        if len(seen) == 1:
            send(port, source, "/a.bin")
        write_file(server, path, pieces, length, start)

    monkeypatch.setattr(FileServer, "write_file", send_another)
    send(port, source, "/a.bin")
    assert len(set(seen)) == 2
    assert content(volume) == {"a.bin": data}


def test_a_part_that_another_upload_made_needless_is_deleted(port: int, volume: Path, tmp_path: Path) -> None:
    source, data = tmp_path / "a.bin", os.urandom(50 * MEBI)
    source.write_bytes(data)
    partial = interrupt_upload(port, 40 * MEBI, source, volume)
    (volume / "a.bin").write_bytes(data)
    progress = send(port, source, "/a.bin")
    assert (progress.unchanged_files, progress.sent_bytes) == (1, 0)
    assert content(volume) == {"a.bin": data}
    assert not partial.exists()


def test_a_full_volume_keeps_the_old_file(tmp_path: Path) -> None:
    volume, port = tmp_path / "volume", next(free_ports())
    volume.mkdir()
    source = tmp_path / "a.bin"
    source.write_bytes(os.urandom(3 * MEBI))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", volume], check=True)
    try:
        (volume / "a.bin").write_bytes(b"old")
        with served(volume, port, WRITER_ARGS), pytest.raises(TransferError, match="was answered with 500"):
            send(port, source, "/a.bin")
        assert (volume / "a.bin").read_bytes() == b"old"
    finally:
        subprocess.run(["umount", "--lazy", volume], check=True)


def test_a_server_that_only_reads_refuses_an_upload_and_serves_a_download(tmp_path: Path) -> None:
    volume, port = tmp_path / "volume", next(free_ports())
    volume.mkdir()
    (volume / "b.bin").write_bytes(b"b")
    source = tmp_path / "a.bin"
    source.write_bytes(b"a")
    with served(volume, port, SERVER_ARGS):
        with pytest.raises(TransferError, match=r"PUT .* was answered with 403"):
            send(port, source, "/a.bin")
        receive(port, "/b.bin", tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == b"b"
    assert content(volume) == {"b.bin": b"b"}


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../../evil", "/etc/evil", "a\0b", "\ud800"])
def test_a_name_on_the_storage_leads_out_of_no_folder(name: str, tmp_path: Path) -> None:
    """A file server never lists such a name; a hostile program in its place could."""

    class Hostile(FileServer):
        def list_folder(self, path: str) -> list[RemoteEntry]:
            return [RemoteEntry(name, False, 1)]

    hostile = Hostile(lambda: http.client.HTTPConnection("127.0.0.1", 1))
    plan = plan_download(hostile, "/", tmp_path / "here", False)
    assert (plan.files, [reason for _, reason in plan.left_out]) == ([], ["its name can't be the name of a local file"])


def test_a_file_that_is_gone_or_a_folder_in_its_place_is_explained(port: int, volume: Path, tmp_path: Path) -> None:
    (volume / "a.bin").mkdir()
    source = tmp_path / "a.bin"
    source.write_bytes(b"a")
    with pytest.raises(OperationRefused, match="is a folder on the storage, but a file here"):
        send(port, source, "/a.bin")
    with pytest.raises(OperationRefused, match="has no file or folder '/nope'"):
        receive(port, "/nope", tmp_path / "here")
    with pytest.raises(OperationRefused, match="can't be read: No such file"):
        send(port, tmp_path / "none", "/x")


def test_a_large_file_with_holes_arrives_with_its_hash(port: int, volume: Path, tmp_path: Path) -> None:
    """`COPY_GIB=10` takes some minutes and as much space; 1 shows the same."""
    size = int(os.environ.get("COPY_GIB", "1")) << 30
    source = tmp_path / "model.safetensors"
    with source.open("wb") as file:
        file.truncate(size)
        for at in range(0, size, size // 16):
            file.seek(at)
            file.write(os.urandom(4096))
    with cutting(port, size * 2 // 5) as cutter:
        progress = send(cutter.port, source, "/models/model.safetensors")
        assert cutter.cut
    with source.open("rb") as sent, (volume / "models/model.safetensors").open("rb") as received:
        assert hashlib.file_digest(sent, "sha256").digest() == hashlib.file_digest(received, "sha256").digest()
    assert progress.sent_bytes <= size


def test_names_that_belong_to_the_storage_or_are_not_utf_8_are_left_out(
    port: int, volume: Path, tmp_path: Path
) -> None:
    source = make_tree(tmp_path / "source")
    (source / ".allotment").mkdir()
    (source / ".allotment" / "complete").write_bytes(b"forged")
    (source / "deep" / ".allotment").write_bytes(b"an ordinary file")
    Path(os.fsdecode(os.fsencode(source) + b"/bad\xff")).write_bytes(b"x")
    plan = plan_upload(source, "/", True)
    assert sorted(reason for _, reason in plan.left_out) == [
        "its name is not UTF-8",
        "this name at the top of a storage belongs to the storage itself",
    ]
    upload(opener(port), plan, Progress(0, None))
    assert not (volume / ".allotment").exists()
    assert (volume / "deep" / ".allotment").read_bytes() == b"an ordinary file"
    with pytest.raises(OperationRefused, match="belongs to the storage itself"):
        plan_upload(source / "deep" / ".allotment", "/", True)


def test_links_and_special_files_on_the_storage_are_left_out(port: int, volume: Path, tmp_path: Path) -> None:
    (volume / "a.bin").write_bytes(b"a")
    (volume / "loop").symlink_to(".")
    (volume / "other").symlink_to("a.bin")
    receive(port, "/", tmp_path / "here")
    assert content(tmp_path / "here") == {"a.bin": b"a"}


def test_a_deep_tree_is_copied(port: int, volume: Path, tmp_path: Path) -> None:
    deep = tmp_path / "source" / "/".join(["d"] * 400)
    deep.mkdir(parents=True)
    (deep / "a").write_bytes(b"a")
    send(port, tmp_path / "source", "/")
    receive(port, "/", tmp_path / "back")
    assert content(tmp_path / "back") == content(tmp_path / "source") == content(volume)


@pytest.mark.parametrize("size", [1000, 40 * MEBI])
def test_two_uploads_of_a_file_at_the_same_time_leave_it_whole(
    size: int, port: int, volume: Path, tmp_path: Path
) -> None:
    source, data = tmp_path / "a.bin", os.urandom(size)
    source.write_bytes(data)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(send, port, source, "/a.bin") for _ in range(4)]:
            assert done.result().copied_files + done.result().unchanged_files == 1
    assert (volume / "a.bin").read_bytes() == data


def test_two_downloads_of_a_file_at_the_same_time_leave_it_whole(port: int, volume: Path, tmp_path: Path) -> None:
    data = os.urandom(40 * MEBI)
    (volume / "a.bin").write_bytes(data)
    with ThreadPoolExecutor(4) as pool:
        copies = [pool.submit(receive, port, "/a.bin", tmp_path / "here" / "a.bin") for _ in range(4)]
        refusals = [copy.exception() for copy in copies if copy.exception() is not None]
    assert len(refusals) < 4
    assert all("another process copies to" in str(refusal) for refusal in refusals)
    assert content(tmp_path / "here") == {"a.bin": data}


def test_a_download_replaces_no_special_file_and_no_link(port: int, volume: Path, tmp_path: Path) -> None:
    (volume / "a.bin").write_bytes(b"a")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OperationRefused, match="is no regular file, so nothing replaces it"):
        receive(port, "/a.bin", tmp_path / "pipe")
    (tmp_path / "link").symlink_to("target")
    receive(port, "/a.bin", tmp_path / "link")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "target").read_bytes()) == (True, b"a")


@pytest.mark.parametrize("is_upload", [True, False])
def test_an_interrupt_ends_a_copy(is_upload: bool, port: int, volume: Path, tmp_path: Path) -> None:
    """The interrupt comes from the function that shows the progress, in a thread of the copy."""
    source = tmp_path / "a.bin"
    for path in (source, volume / "b.bin"):
        path.write_bytes(os.urandom(60 * MEBI))

    def interrupt(done: int, total: int) -> None:
        if done > 10 * MEBI:
            raise KeyboardInterrupt

    progress = Progress(60 * MEBI, interrupt)
    with pytest.raises(KeyboardInterrupt):
        if is_upload:
            upload(opener(port), plan_upload(source, "/a.bin", False), progress)
        else:
            with opener(port)() as server:
                plan = plan_download(server, "/b.bin", tmp_path / "here", False)
            download(opener(port), plan, progress)
    assert not (volume / "a.bin").exists()
    assert not (tmp_path / "here").exists()
    with pytest.raises(TransferError, match="the copy was cancelled"):
        progress.check()
