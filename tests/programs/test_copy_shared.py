"""A copy from somebody's file server, which may say anything: names that aren't, folders without end, files that change."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.programs import server
from tests.programs.server import serving, web
from tests.programs.volumes import files, killed_at

from allotment.programs import ending, volume
from allotment.programs.copy_shared import connect, copy
from allotment.programs.download import Web

JOB = "mine--prepare-0123456789-1"


def listed(*entries: tuple[str, str, int]) -> bytes:
    """Return a list as the file server writes it, of (name, kind, size)."""
    paths = [
        {"name": name, "path_type": kind, "mtime": 1_760_000_000_123, "size": size} for name, kind, size in entries
    ]
    return json.dumps({"href": "/", "paths": paths}).encode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty volume."""
    (tmp_path / volume.OWN).mkdir()
    return tmp_path


SERVED = {
    "/?json": listed(
        ("a", "Dir", 2), ("w.bin", "File", 5000), ("none", "File", 0), ("l", "SymlinkFile", 4), (".allotment", "Dir", 1)
    ),
    "/a/?json": listed(("b c?#é", "File", 4), ("far", "SymlinkDir", 0)),
    "/w.bin": b"w" * 5000,
    "/l": b"link",
    "/a/b c?#é": b"four",
}
WANTED = {"w.bin": b"w" * 5000, "none": b"", "l": b"link", "a/b c?#é": b"four"}


def test_everything_it_has(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(SERVED) as served:
        copy(web(), served.url, str(root))
    assert files(root) == WANTED
    assert (root / "w.bin").stat().st_mtime_ns == 1_760_000_000_123 * 10**6
    assert capsys.readouterr().out == "4 files copied, 1 left out\n"


def test_links_that_lie_on_the_volume_are_replaced_and_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Somebody's earlier work may have left them: what they lead to is not the copy's to write."""
    other = tmp_path_factory.mktemp("other")
    (other / "kept").write_text("kept")
    (root / "a").symlink_to(other, target_is_directory=True)
    (root / "w.bin").symlink_to(other / "kept")
    (root / volume.OWN / "part-empty").symlink_to(other / "kept")
    for name in ("w.bin", "l", "a/b c?#é"):
        mtime, size = 1_760_000_000_123, len(WANTED[name])
        part = hashlib.sha256(f"{name} {mtime} {size}".encode()).hexdigest()[:32]
        (root / volume.OWN / f"part-{part}").symlink_to(other / "kept")
    with serving(SERVED) as served:
        copy(web(), served.url, str(root))
    assert files(root) == WANTED
    assert [entry.name for entry in other.iterdir()] == ["kept"]
    assert (other / "kept").read_text() == "kept"
    assert not [path for path in root.rglob("*") if path.is_symlink()]


def test_copy_follows_no_redirect_to_another_host(root: Path) -> None:
    with serving(SERVED) as other, serving({}, server.sends_to(f"{other.url}/?json")) as served:
        with pytest.raises(ending.Failed, match="it sends to another host") as failure:
            copy(Web(connect, wait=0, stays=True), served.url, str(root))
        assert other.requests == []
    assert failure.value.status == ending.ADDRESS_REFUSED


def test_copy_fetches_only_missing_or_incomplete_files(root: Path) -> None:
    with serving(SERVED) as served:
        copy(web(), served.url, str(root))
        (root / "l").write_bytes(b"half")
        (root / "w.bin").unlink()
        earlier_requests = len(served.requests)
        copy(web(), served.url, str(root))
    assert [urlsplit(path).path for path, _ in served.requests[earlier_requests:]] == ["/", "/w.bin", "/l", "/a/"]
    assert files(root) == WANTED


@pytest.mark.process
def test_killed_at_every_step(tmp_path: Path) -> None:
    with serving(SERVED) as served:
        step = 1
        while True:
            root = tmp_path / str(step)
            root.mkdir()

            def filled(root: Path = root) -> None:
                volume.fill(str(root), JOB, lambda: copy(web(), served.url, str(root)))

            killed = killed_at(step, filled)
            assert not killed_at(10**9, filled)
            assert files(root) == WANTED
            if not killed:
                break
            step += 1
    assert step > 15


@pytest.mark.parametrize("name", ["../x", "..", ".", "", "a/b", "a\0b", "\ud800"], ids=repr)
def test_a_name_that_is_none(root: Path, name: str) -> None:
    with serving({"/?json": listed((name, "File", 1))}) as served, pytest.raises(ending.Failed) as failure:
        copy(web(), served.url, str(root))
    assert failure.value.status == ending.SOURCE_UNREADABLE
    assert files(root) == {}


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"<html>", b'{"paths": [1]}', b'{"paths": [{"name": "a"}]}', b'{"paths": ' + b"[" * 100_000]
    + [
        b'{"paths": [{"name": "a", "path_type": "File", "mtime": %s, "size": %s}]}' % numbers
        for numbers in ((b"Infinity", b"1"), (b"NaN", b"1"), (b"1" * 4000, b"1"), (b"1", b"-1"), (b"1", b"9" * 5000))
    ],
    ids=lambda text: text[:70].decode(),
)
def test_a_list_that_is_none(root: Path, text: bytes) -> None:
    with serving({"/?json": text}) as served, pytest.raises(ending.Failed, match="can't be read") as failure:
        copy(web(), served.url, str(root))
    assert failure.value.status == ending.SOURCE_UNREADABLE


def test_folders_without_end(root: Path) -> None:
    def deeper(request: server.Request) -> None:
        request.say(200, listed(("again", "Dir", 1)))

    with serving({}, *[deeper] * 100) as served, pytest.raises(ending.Failed, match="deeper than 64"):
        copy(web(), served.url, str(root))


def test_a_file_that_is_larger_than_it_said(root: Path) -> None:
    with (
        serving({"/?json": listed(("a", "File", 3)), "/a": b"much more"}) as served,
        pytest.raises(ending.Failed) as failure,
    ):
        copy(web(), served.url, str(root))
    assert failure.value.status == ending.SOURCE_UNREADABLE


def test_only_servers_of_the_cluster() -> None:
    with pytest.raises(ending.Failed):
        connect("https://models.example/")
    connection: Any = connect("http://base-models--files.t-northlight.svc:5000/")
    assert (connection.host, connection.port) == ("base-models--files.t-northlight.svc", 5000)


@pytest.mark.process
def test_a_full_list_of_many(root: Path) -> None:
    names = [f"f{number}" for number in range(3000)]
    served_files = {"/?json": listed(*((name, "File", 1) for name in names)), **{f"/{name}": b"x" for name in names}}
    with serving(served_files) as served:
        copy(web(), served.url, str(root))
    assert sorted(os.listdir(root)) == sorted([".allotment", *names])
