"""Pages are served with a strict policy, entity tags and compression, and nothing else of the machine is."""

from __future__ import annotations

import gzip
import http.client
import os
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.adapters import page_server
from allotment.adapters.page_server import Decision, PageServer, find_page_path

Answer = tuple[int, dict[str, str], bytes]
Get = Callable[..., Answer]
PAGE = b"<p>page</p>" * 500


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    (site / "tenants/solo-ada").mkdir(parents=True)
    (site / "index.html").write_bytes(PAGE)
    (site / "tenants/solo-ada/index.html").write_bytes(b"ada")
    (site / "offers.json").write_bytes(b"{}")
    (site / ".allotment-portal").write_bytes(b"marker")
    (tmp_path / "secret.html").write_bytes(b"secret")
    return site


class Gate:
    """Answers as a test says."""

    def __init__(self) -> None:
        self.answer = Decision(HTTPStatus.OK)
        self.requests: list[tuple[str, tuple[str | None, ...]]] = []

    def decide(self, path: str, headers: tuple[str | None, ...]) -> Decision:
        self.requests.append((path, headers))
        return self.answer


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def get(folder: Path, gate: Gate) -> Iterator[Get]:
    server = PageServer("127.0.0.1", 0, folder, gate, ("x-user", "x-groups"))

    def get(path: str, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, dict(answer.headers), body

    yield get
    server.close()


def test_a_page_has_a_strict_policy(get: Get) -> None:
    status, headers, body = get("/")
    assert (status, body) == (200, PAGE)
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().partition(" ")[::2] for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "private, no-cache"


def test_a_folder_has_an_index(get: Get) -> None:
    assert get("/tenants/solo-ada/")[2] == b"ada"
    assert get("/tenants/solo-ada/index.html?x=1")[2] == b"ada"
    assert get("/offers.json")[1]["Content-Type"] == "application/json"


def test_an_unchanged_page_is_not_sent_again(get: Get, folder: Path) -> None:
    tag = get("/")[1]["ETag"]
    status, headers, body = get("/", If_None_Match=f'"other", W/{tag}')
    assert (status, body, headers["ETag"]) == (304, b"", tag)
    assert "Content-Length" not in headers
    temporary = folder / "new"
    temporary.write_bytes(PAGE + b"!")
    os.replace(temporary, folder / "index.html")
    status, headers, body = get("/", If_None_Match=tag)
    assert (status, body) == (200, PAGE + b"!")
    assert headers["ETag"] != tag


@pytest.mark.parametrize(
    ("accepts", "is_compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("*", True),
        ("*, gzip;q=0", False),
        ("gzip;q=0", False),
        ("br", False),
        ("", False),
    ],
)
def test_pages_are_compressed_for_those_who_accept_it(get: Get, accepts: str, is_compressed: bool) -> None:
    status, headers, body = get("/", Accept_Encoding=accepts)
    assert status == 200
    assert headers["Vary"] == "Accept-Encoding"
    assert (headers.get("Content-Encoding") == "gzip") is is_compressed
    assert (gzip.decompress(body) if is_compressed else body) == PAGE
    assert len(body) == int(headers["Content-Length"])
    assert headers["ETag"].endswith('-gzip"') is is_compressed


def test_a_small_page_is_not_compressed(get: Get) -> None:
    assert "Content-Encoding" not in get("/tenants/solo-ada/", Accept_Encoding="gzip")[1]


def test_head_has_the_headers_alone(get: Get) -> None:
    status, headers, body = get("/", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) == len(PAGE)
    assert get("/nothing.html", "HEAD")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.html",
        "/tenants/../../secret.html",
        "/%2e%2e/secret.html",
        "//etc/passwd",
        "/.allotment-portal",
        "/tenants//solo-ada/index.html",
        "/tenants/./solo-ada/index.html",
        "/tenants\\solo-ada",
        "*",
        "/nothing.html",
    ],
)
def test_other_paths_are_not_found(get: Get, path: str) -> None:
    status, headers, body = get(path)
    assert (status, body) == (404, b"no such page\n")
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_a_missing_page_has_the_page_of_the_site(get: Get, gate: Gate, folder: Path) -> None:
    (folder / "404.html").write_bytes(b"gone")
    status, headers, body = get("/nothing.html")
    assert (status, headers["Content-Type"], body) == (404, "text/html; charset=utf-8", b"gone")
    assert get("/nothing.html", "HEAD")[2] == b""
    assert get("/tenants//etc")[2] == b"no such page\n", "the gate decides about no such path"
    gate.answer = Decision(HTTPStatus.FORBIDDEN, reason="no")
    assert get("/nothing.html")[::2] == (403, b"no\n")


def test_links_and_pipes_are_not_served(get: Get, folder: Path) -> None:
    (folder / "link.html").symlink_to(folder.parent / "secret.html")
    os.mkfifo(folder / "pipe.html")
    assert get("/link.html")[0] == 404
    assert get("/pipe.html")[0] == 404
    (folder / "folder").symlink_to(folder.parent)
    assert get("/folder/secret.html")[0] == 404


def test_the_gate_decides_by_the_path_and_the_headers(get: Get, gate: Gate) -> None:
    assert get("/tenants/solo-ada/", X_User="ada", X_GROUPS="g")[0] == 200
    assert gate.requests == [("tenants/solo-ada/index.html", ("ada", "g"))]
    gate.answer = Decision(HTTPStatus.FORBIDDEN, reason="no access")
    status, headers, body = get("/tenants/solo-ada/", "GET")
    assert (status, headers["Content-Type"]) == (403, "text/plain; charset=utf-8")
    assert body == b"no access\n"
    assert get("/nothing.html")[0] == 403, "whether a page exists is no one's business"
    gate.answer = Decision(HTTPStatus.FOUND, ("/tenants/solo-ada/",))
    status, headers, _ = get("/tenants/")
    assert (status, headers["Location"]) == (302, "/tenants/solo-ada/")
    gate.answer = Decision(HTTPStatus.MULTIPLE_CHOICES, ("/tenants/a/", "/tenants/b&c/"))
    status, headers, body = get("/tenants/")
    assert (status, headers["Content-Type"]) == (300, "text/html; charset=utf-8")
    assert b'<li><a href="/tenants/a/">/tenants/a/</a></li><li><a href="/tenants/b&amp;c/">' in body


def test_a_folder_without_a_slash_leads_to_its_page(get: Get, gate: Gate) -> None:
    status, headers, _ = get("/tenants/solo-ada")
    assert (status, headers["Location"]) == (301, "/tenants/solo-ada/")
    assert get("/tenants/nobody")[0] == 404
    assert get("//tenants/solo-ada")[1]["Location"] == "/tenants/solo-ada/", "never the address of another host"
    gate.answer = Decision(HTTPStatus.FORBIDDEN, reason="no access")
    assert get("/tenants/solo-ada")[0] == 403


def test_a_header_that_comes_twice_does_not_count(get: Get, gate: Gate, folder: Path) -> None:
    assert get("/", X_User="ada", x_user="eve")[0] == 200
    assert gate.requests[-1][1][0] is None


def test_a_request_with_two_hosts_is_refused(get: Get, gate: Gate) -> None:
    gate.requests.clear()
    assert get("/", Host="evil.example")[0] == 400  # http.client sends one, too
    assert gate.requests == []


def test_other_methods_are_refused(get: Get) -> None:
    assert get("/", "POST")[0] == 404
    assert get("/", "PUT")[0] == 501


def test_the_cache_has_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "MAX_CACHED_BYTES", 20_000)
    for number in range(10):
        (folder / f"page{number}.html").write_bytes(bytes([65 + number]) * 6_000)
    cache = page_server._PageCache(folder)
    for _ in range(2):
        for number in range(10):
            page = cache.read(f"page{number}.html")
            assert page is not None
            assert page.content == bytes([65 + number]) * 6_000
            assert list(cache._pages)[-1] == f"page{number}.html"
            assert cache._size == sum(map(page_server._count_bytes, cache._pages.values())) <= 20_000
    assert list(cache._pages) == ["page7.html", "page8.html", "page9.html"]


@given(st.text())
def test_a_page_is_below_the_folder(path: str) -> None:
    page = find_page_path(path)
    if page is not None:
        assert os.path.normpath(page) == page
        assert not page.startswith(("/", "."))
