"""One file of the internet: its checksum decides, and what broke off goes on."""

from __future__ import annotations

import hashlib
import http.client
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.programs import server
from tests.programs.server import serving, web
from tests.programs.volumes import files, killed_at

from allotment.programs import addresses, download, ending, volume
from allotment.programs.fetch_url import fetch

BODY = os.urandom(3_000_000)
SHA = hashlib.sha256(BODY).hexdigest()
JOB = "models--prepare-0123456789-1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return an empty volume."""
    (tmp_path / volume.OWN).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        ((), ["", ""][:1]),
        ((server.breaks_off(1000),), ["", "bytes=1000-"]),
        (
            (server.breaks_off(1000), server.breaks_off(0), server.says(503), server.says(429)),
            ["", *["bytes=1000-"] * 4],
        ),
        ((server.breaks_off(1000), server.without_ranges), ["", "bytes=1000-"]),
        ((server.breaks_off(1000), server.another_range), ["", "bytes=1000-", "bytes=1000-"]),
        ((server.breaks_off(1000), server.says(416)), ["", "bytes=1000-", ""]),
        (tuple(server.breaks_off(100_000) for _ in range(20)), ["", *(f"bytes={n}00000-" for n in range(1, 21))]),
    ],
    ids=["at once", "broken off", "busy", "no ranges", "another range", "no such range", "twenty times"],
)
def test_fetch_completes_an_interrupted_download(
    root: Path, script: tuple[server.Answer, ...], ranges: list[str]
) -> None:
    with serving({"/m.bin": BODY}, *script) as served:
        fetch(web(), f"{served.url}/m.bin", SHA, "models/m.bin", str(root))
    assert files(root) == {"models/m.bin": BODY}
    assert [wanted for _, wanted in served.requests] == ranges
    assert not [name for name in os.listdir(root / volume.OWN) if name.startswith("part-")]


def test_redirects_are_followed(root: Path) -> None:
    with (
        serving({"/b": BODY}) as other,
        serving({}, server.sends_to("/a2"), server.sends_to(f"{other.url}/b?x=1")) as first,
    ):
        fetch(web(), f"{first.url}/a?download=true", SHA, "b", str(root))
    assert [path for path, _ in first.requests] == ["/a?download=true", "/a2"]
    assert files(root) == {"b": BODY}


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ((server.says(404),), ending.SOURCE_UNAVAILABLE, "answers 404"),
        ((server.says(403),), ending.ACCESS_DENIED, "answers 403: it isn't open to us"),
        (
            tuple(server.says(500) for _ in range(20)),
            ending.SOURCE_UNAVAILABLE,
            "given up after 8 tries: .*answers 500",
        ),
        (tuple(server.breaks_off(0) for _ in range(20)), ending.SOURCE_UNAVAILABLE, "given up after 8 tries"),
        (tuple(server.sends_to("/again") for _ in range(20)), ending.SOURCE_UNAVAILABLE, "more than 10 redirects"),
    ],
    ids=["not found", "forbidden", "broken", "empty", "in a circle"],
)
def test_why_it_does_not_come(root: Path, script: tuple[server.Answer, ...], status: int, words: str) -> None:
    with serving({"/m.bin": BODY}, *script) as served, pytest.raises(ending.Failed, match=words) as failure:
        fetch(web(), f"{served.url}/m.bin?token=secret", SHA, "m.bin", str(root))
    assert failure.value.status == status
    assert "secret" not in str(failure.value)
    assert files(root) == {}


def test_another_content_is_refused_and_kept_nowhere(root: Path) -> None:
    with serving({"/m.bin": b"evil" + BODY}) as served, pytest.raises(ending.Failed, match="is declared") as failure:
        fetch(web(), f"{served.url}/m.bin", SHA, "m.bin", str(root))
    assert failure.value.status == ending.CHECKSUM_MISMATCH
    assert [path for path in root.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("to", "status", "words"),
    [
        (
            "https://models.example:port/x",
            ending.ADDRESS_REFUSED,
            "'https://models.example:port/x' is no https:// address",
        ),
        ("https://models.example:99999/x", ending.ADDRESS_REFUSED, "is no https:// address"),
        (f"https://models.example:{5000 * '9'}/x", ending.ADDRESS_REFUSED, "is no https:// address"),
        ("https://[::1", ending.ADDRESS_REFUSED, "it sends to 'https://[::1', which is no address"),
        ("https://[fe80/x", ending.ADDRESS_REFUSED, "which is no address"),
        (f"https://{64 * 'a'}.example/x", ending.SOURCE_UNAVAILABLE, "can't be looked up"),
        ("https://a..example/x", ending.SOURCE_UNAVAILABLE, "can't be looked up"),
        ("/mod\xe8le?token=secret", ending.ADDRESS_REFUSED, "no address: letters beyond ASCII need %"),
    ],
)
def test_a_redirect_to_no_address_is_a_named_failure(root: Path, to: str, status: int, words: str) -> None:
    def first_local(url: str) -> http.client.HTTPConnection:
        return server.local(url) if url.startswith("http://127.0.0.1:") else addresses.connect(url)

    with serving({}, server.sends_to(to)) as served, pytest.raises(ending.Failed) as failure:
        fetch(web(connect=first_local), f"{served.url}/x", SHA, "m.bin", str(root))
    assert failure.value.status == status
    assert words in str(failure.value)
    assert "secret" not in str(failure.value)


def test_a_range_of_thousands_of_digits_is_another_range(root: Path) -> None:
    def endless(request: server.Request) -> None:
        request.say(206, b"x", Content_Range=f"bytes {5000 * '1'}-{5000 * '2'}/*")

    with serving({"/m.bin": BODY}, endless) as served:
        fetch(web(), f"{served.url}/m.bin", SHA, "m.bin", str(root))
    assert files(root) == {"m.bin": BODY}


@pytest.mark.parametrize(
    "to", ["https://169.254.169.254/latest", "https://localhost/x", "http://1.1.1.1/x", "file:///etc/passwd"]
)
def test_a_redirect_is_checked_as_the_first_address(root: Path, to: str) -> None:
    def first_local(url: str) -> http.client.HTTPConnection:
        return server.local(url) if url.startswith("http://127.0.0.1:") else addresses.connect(url)

    with serving({}, server.sends_to(to)) as served, pytest.raises(ending.Failed) as failure:
        fetch(web(connect=first_local), f"{served.url}/x", SHA, "m.bin", str(root))
    assert failure.value.status == ending.ADDRESS_REFUSED


def test_fetch_sends_no_request_for_a_complete_file(root: Path) -> None:
    (root / "m.bin").write_bytes(BODY)
    with serving({}) as served:
        fetch(web(), f"{served.url}/m.bin", SHA, "m.bin", str(root))
    assert served.requests == []


@pytest.mark.process
def test_killed_at_every_step(tmp_path: Path) -> None:
    with serving({"/m.bin": BODY}) as served:
        step = 1
        while True:
            root = tmp_path / str(step)
            root.mkdir()

            def filled(root: Path = root) -> None:
                volume.fill(str(root), JOB, lambda: fetch(web(), f"{served.url}/m.bin", SHA, "a/m.bin", str(root)))

            killed = killed_at(step, filled)
            if volume.is_complete(str(root), JOB):
                assert files(root) == {"a/m.bin": BODY}
            assert not killed_at(10**9, filled)
            assert files(root) == {"a/m.bin": BODY}
            if not killed:
                break
            step += 1
    assert step > 8


def test_a_full_volume_is_not_the_networks_fault(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Callable[..., object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_receive", full)
    with serving({"/m.bin": BODY}) as served, pytest.raises(OSError, match="No space left"):
        fetch(web(), f"{served.url}/m.bin", SHA, "m.bin", str(root))
