"""A server that sends a byte now and then holds up no command: identity providers and registries."""

from __future__ import annotations

import datetime
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from allotment.adapters import request_limit
from allotment.adapters.cluster import discovery
from allotment.adapters.http_responses import ApiUnavailable
from allotment.adapters.oidc import provider
from allotment.adapters.registry import connection
from allotment.problems import OperationRefused

NOW = datetime.datetime(2026, 11, 28, tzinfo=datetime.UTC)
HEADER = b"HTTP/1.1 200 OK\r\nX-Slow: "
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


class DrippingServer:
    """A server that begins an answer, and then sends a byte every 50 ms for ten seconds."""

    def __init__(self, begin: bytes) -> None:
        self._begin = begin
        self.complete = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            accepted, _ = self._socket.accept()
            with accepted:
                accepted.recv(65536)
                accepted.sendall(self._begin)
                for _ in range(200):
                    accepted.sendall(b"a")
                    time.sleep(0.05)
                self.complete.set()

    def close(self) -> None:
        """End the thread. A thread that still waits for a connection could take one of another server with the same descriptor."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@pytest.fixture(params=[HEADER, BODY], ids=["header", "body"])
def server(request: pytest.FixtureRequest) -> Iterator[DrippingServer]:
    server = DrippingServer(request.param)
    yield server
    server.close()


def discover(url: str) -> str:
    return discovery.fetch_discovery_document(url, NOW).failure


def request_tokens(url: str) -> str:
    with pytest.raises(OperationRefused) as refusal:
        provider.request_tokens(f"{url}/token", {"grant_type": "refresh_token"})
    return str(refusal.value)


def ask_registry(url: str) -> str:
    with pytest.raises(connection.RegistryUnreachable) as refusal:
        connection.send_request("GET", f"{url}/v2/", {})
    return str(refusal.value)


@pytest.mark.parametrize("ask", [discover, request_tokens, ask_registry])
def test_a_whole_request_has_a_limit(
    server: DrippingServer, ask: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "REQUEST_SECONDS", 0.3)
    for module in (provider, connection):
        monkeypatch.setattr(module, "_REQUEST_SECONDS", 0.3)
    assert "too slow" in ask(server.url)
    assert not server.complete.is_set()


def test_a_limit_ends_a_request_that_begins_after_it_has_expired(
    server: DrippingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = request_limit._HTTPConnection.connect

    def connect_late(connection: request_limit._HTTPConnection) -> None:
        assert request_limit._started.has_expired.wait(60)  # as after a slow resolver of names
        begin(connection)

    monkeypatch.setattr(request_limit._HTTPConnection, "connect", connect_late)
    monkeypatch.setattr(provider, "_REQUEST_SECONDS", 0.1)
    assert "too slow" in request_tokens(server.url)
    assert not server.complete.is_set()


def test_an_error_after_the_limit_has_expired_names_the_limit() -> None:
    with pytest.raises(request_limit.RequestTooSlow), request_limit.limit_request(0.01):
        assert request_limit._started.has_expired.wait(60)
        raise ApiUnavailable("the connection broke off")
