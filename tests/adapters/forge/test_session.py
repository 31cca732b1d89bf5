"""What a forge's client sends, and what it follows: one token, no other host, no endless answer. Each forge, real sockets."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.adapters.forge.site import Respond, Site, make_site, send

from allotment.adapters.forge import gitea, github, gitlab, session
from allotment.adapters.forge.forge import Forge, ForgeError, ForgeUnreachable, Token

SECRET = "t0ken-of-the-forge"


@pytest.fixture
def site() -> Iterator[Site]:
    yield from make_site()


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    yield from make_site()


@pytest.fixture(params=[gitea, gitlab, github], ids=["Gitea", "GitLab", "GitHub"])
def forge(request: pytest.FixtureRequest, site: Site) -> Forge:
    connected: Forge = request.param.connect(site.url, "team/cloud", Token(SECRET), site.url)
    return connected


def test_no_netrc_replaces_the_token(forge: Forge, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login ada password of-ada\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    site.respond = lambda handler: send(handler, 200, json.dumps({"login": "bot", "username": "bot", "id": 1}))
    forge.identity()
    assert site.requests
    for _, _, headers in site.requests:
        assert SECRET in headers
        assert "Basic " not in headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirected_write_is_an_error_and_writes_nothing(
    forge: Forge, site: Site, elsewhere: Site, status: int
) -> None:
    site.respond = lambda handler: send(handler, status, "", Location=f"{elsewhere.url}{handler.path}")
    with pytest.raises(ForgeError):
        forge.create_comment(1, "words")
    assert elsewhere.requests == []


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_moved_write_never_becomes_a_read(forge: Forge, site: Site, status: int) -> None:
    """GitHub's client reads the pull request first, and repeats a write at the same host."""
    issue = f"{site.url}/repos/team/cloud/issues/1"
    content = {"id": 1, "body": "words", "user": {"login": "bot"}, "url": issue, "issue_url": issue}

    def respond(handler: BaseHTTPRequestHandler) -> None:
        if handler.command == "GET" or handler.path.startswith("/moved"):
            send(handler, 200, json.dumps(content))
        else:
            send(handler, status, "", Location=f"{site.url}/moved{handler.path}")

    site.respond = respond
    with suppress(ForgeError):
        forge.create_comment(1, "words")
    methods = {method for method, path, _ in site.requests if "moved" in path or "comments" in path or "notes" in path}
    assert methods == {"POST"}


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_read_is_sent_elsewhere(forge: Forge, site: Site, elsewhere: Site, status: int) -> None:
    site.respond = lambda handler: send(handler, status, "", Location=f"{elsewhere.url}{handler.path}")
    with pytest.raises(ForgeError):
        forge.pull_request(1)
    assert elsewhere.requests == []
    assert all(SECRET in headers for _, _, headers in site.requests)


@pytest.mark.parametrize("body", ["{}", "[null]", '{"message": "moved"}'])
def test_an_answer_that_is_no_list_is_no_empty_list(forge: Forge, site: Site, body: str) -> None:
    site.respond = lambda handler: send(handler, 200, body)
    with pytest.raises(ForgeUnreachable, match="instead of an object of its API"):
        list(forge.open_pull_requests("main"))
    site.respond = lambda handler: send(handler, 200, "null" if forge.name == "Gitea" else "[]")
    assert list(forge.open_pull_requests("main")) == []


def test_a_body_has_a_limit_after_its_decompression(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_BYTES", 1 << 20)
    forge_session = session.ForgeSession(Token(SECRET))
    body = gzip.compress(b"[]".ljust(2 << 20))

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    site.respond = respond
    assert len(body) < 1 << 16
    with pytest.raises(ForgeUnreachable, match="more than 1 MiB"):
        forge_session.get(f"{site.url}/api/v4/projects")
    monkeypatch.setattr(session, "MAX_BYTES", 4 << 20)
    assert len(forge_session.get(f"{site.url}/api/v4/projects").content) == 2 << 20


def test_a_link_to_another_host_gets_no_request(site: Site, elsewhere: Site) -> None:
    """A forge with a wrong external URL, or a hostile answer, names another host for the next page."""
    forge_session = session.ForgeSession(Token(SECRET))
    assert forge_session.get(f"{site.url}/api/v4/projects").ok
    with pytest.raises(ForgeUnreachable, match=f"the forge names {elsewhere.url} for a request to its API"):
        forge_session.get(f"{elsewhere.url}/api/v4/projects?page=2", headers={"PRIVATE-TOKEN": SECRET})
    assert (len(site.requests), elsewhere.requests) == (1, [])


def test_a_link_to_a_subdomain_gets_no_request_of_githubs_library(site: Site) -> None:
    """The library itself permits subdomains of the API's host, such as the pages of a forge's users."""
    pull = {"number": 1, "url": f"{site.url}/repos/team/cloud/pulls/1", "issue_url": "http://pages.localhost/issues/1"}
    site.respond = lambda handler: send(handler, 200, json.dumps(pull))
    api = site.url.replace("127.0.0.1", "localhost")
    connected = github.connect(site.url, "team/cloud", Token(SECRET), api)
    with pytest.raises(ForgeUnreachable, match=r"the forge names http://pages\.localhost:80 for a request to its API"):
        connected.approvals(1, "a" * 40)
    assert [path for _, path, _ in site.requests] == ["/repos/team/cloud/pulls/1"]


def drip_header(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(200):
        handler.wfile.write(b"a")
        handler.wfile.flush()
        time.sleep(0.05)


def drip_body(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    drip_header(handler)


@pytest.mark.parametrize("drip", [drip_header, drip_body])
def test_an_answer_without_end_is_an_error(
    forge: Forge, site: Site, drip: Respond, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server writes for ten seconds, and a read never waits long: the client ends the connection before."""
    complete = threading.Event()
    monkeypatch.setattr(session, "MAX_SECONDS", 0.3)

    def respond(handler: BaseHTTPRequestHandler) -> None:
        drip(handler)
        complete.set()

    site.respond = respond
    with pytest.raises(ForgeUnreachable, match=r"within 0 s"):
        forge.pull_request(1)
    assert not complete.is_set()
    site.respond = lambda handler: send(handler, 404, "{}")
    with pytest.raises(ForgeError):  # the next request has a connection of its own
        forge.pull_request(1)
