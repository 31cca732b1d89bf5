"""A discovery document is read over HTTPS from its issuer alone, within limits, and with the time of its clock."""

from __future__ import annotations

import datetime
import json
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controlplane import secure
from tests.support.faults import Answer, Request, Server, fails, serving

from allotment.adapters.cluster import discovery
from allotment.adapters.cluster.discovery import fetch_discovery_document
from allotment.adapters.http_responses import parse_http_date
from allotment.diagnosis.login import DiscoveryResponse

DOCUMENT = {"issuer": "https://id.acme.dev", "jwks_uri": "https://id.acme.dev/keys", "scopes_supported": ["openid"]}


def document(body: Any = DOCUMENT, **headers: str) -> Answer:
    return lambda request: request.whole(json.dumps(body).encode(), **headers)


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Return a server of HTTPS that this system trusts."""
    secure.certify(tmp_path, ["localhost"])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / secure.AUTHORITY))
    monkeypatch.setenv("no_proxy", "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / secure.CERTIFICATE)
    with serving(otherwise=document()) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server


def url_of(server: Server) -> str:
    return f"https://localhost:{server.server_address[1]}"


def fetch(server: Server, ahead: float = 0) -> DiscoveryResponse:
    """Fetch from a server whose clock is some seconds ahead of the cluster's clock."""
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ahead)
    return fetch_discovery_document(url_of(server), now)


def test_a_document_is_one_get_request_without_credentials(provider: Server) -> None:
    read = fetch(provider).document
    assert read is not None
    assert (read.issuer, read.jwks_uri, read.scopes_supported) == (
        DOCUMENT["issuer"],
        DOCUMENT["jwks_uri"],
        ("openid",),
    )
    assert (read.token_endpoint, read.claims_supported) == (None, None)
    fetch_discovery_document(f"{url_of(provider)}/", datetime.datetime.now(datetime.UTC))
    assert [request.request_path for request in provider.requests] == ["/.well-known/openid-configuration"] * 2
    assert {request.command for request in provider.requests} == {"GET"}
    assert not any("Authorization" in request.headers for request in provider.requests)


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (fails(503), "it answers 503"),
        (fails(302, Location="https://localhost:1/elsewhere"), "it answers 302"),
        (lambda request: request.whole(b"<html>"), "its answer can't be read: JSON is malformed: invalid character"),
        (lambda request: request.whole(b"\xff\xfe"), "its answer can't be read: "),
        (document({}), "its answer can't be read: Object missing required field `issuer`"),
        (document({**DOCUMENT, "jwks_uri": 7}), "its answer can't be read: Expected `str | null`, got `int`"),
        (lambda request: request.wfile.write(b"no HTTP\n"), "the connection broke off"),
    ],
)
def test_an_answer_without_a_document_has_a_reason(answer: Answer, failure: str, provider: Server) -> None:
    provider.otherwise = answer
    response = fetch(provider)
    assert response.document is None
    assert response.failure.startswith(failure)
    assert len(provider.requests) == 1


def test_an_endless_answer_is_not_read_to_its_end(provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(request: Request) -> None:
        request.begin()
        while not provider.ending.is_set():
            request.wfile.write(b" " * (1 << 16))

    provider.otherwise = endless
    assert fetch(provider).failure == "too much"

    def slow(request: Request) -> None:
        request.begin()
        while not provider.ending.wait(0.05):
            request.wfile.write(b" ")

    provider.otherwise = slow
    monkeypatch.setattr(discovery, "READ_SECONDS", 0.3)
    assert fetch(provider).failure == "too slow"
    provider.otherwise = lambda request: provider.ending.wait(5) and None
    assert fetch(provider).failure == "too slow"


def test_a_provider_that_is_not_reached_has_a_reason(provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.datetime.now(datetime.UTC)
    assert (
        fetch_discovery_document("https://localhost:1", now).failure == "nothing listens there, or no way leads there"
    )
    assert fetch_discovery_document("https://localhost:99999", now).failure
    assert fetch_discovery_document("https://a..b", now).failure
    monkeypatch.delenv("SSL_CERT_FILE")
    assert fetch(provider).failure.startswith("its certificate isn't trusted, or it speaks no TLS: name the file")


def test_the_proxy_of_the_environment_is_used(provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy")
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://localhost:1")
    assert fetch(provider).failure == "the proxy of HTTPS_PROXY, ALL_PROXY or the kubeconfig doesn't lead there"
    assert provider.requests == []


@pytest.mark.parametrize(("ahead", "low", "high"), [(0, 0, 0), (300, 297, 301), (-300, -302, -297)])
def test_the_clock_is_compared_with_the_clusters(ahead: int, low: int, high: int, provider: Server) -> None:
    lead = fetch(provider, ahead).clock_lead
    assert lead is not None
    assert low - 1 <= lead <= high


def test_a_slow_answer_of_a_right_clock_is_not_ahead(provider: Server) -> None:
    def late(request: Request) -> None:
        time.sleep(2)
        document()(request)

    provider.otherwise = late
    lead = fetch(provider).clock_lead
    assert lead is not None
    assert -1 <= lead <= 0


def test_a_cached_answer_has_the_clock_of_its_cache(provider: Server) -> None:
    provider.otherwise = document(Age="600")
    lead = fetch(provider, -600).clock_lead
    assert lead is not None
    assert abs(lead) < 3
    provider.otherwise = document(Age="x")
    assert fetch(provider).clock_lead is not None


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 99999999999999 Jan 2025 00:00:00 GMT"])
def test_a_date_that_is_no_date_is_unknown(date: str) -> None:
    assert parse_http_date("Fri, 31 Dec 1999 23:59:59 GMT") == 946684799
    assert parse_http_date(date) is None
