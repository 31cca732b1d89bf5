"""The web port over real sockets: odd requests, and clients that hold connections."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from allotment.adapters import http_server as module
from allotment.adapters.http_server import MAX_CONNECTIONS, MetricsSource, Throttle, WebHandlers, WebServer


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Yield a server that is alive, ready, and wants no signature."""
    server = WebServer("127.0.0.1", 0, WebHandlers(lambda: True, lambda: True, lambda: None))
    yield server
    server.close()


def status_of(web: WebServer, method: str, path: str, **headers: str) -> int:
    """Return the status of a request's answer."""
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=20)
    try:
        connection.putrequest(method, path)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 12, "1048577", "-1", "1e3", "+1", "\u00b2", ""])
def test_a_length_that_is_none_or_too_long(length: str, web: WebServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(web, "POST", "/webhook", Content_Length=length) == 413
    assert capsys.readouterr().err == ""
    assert status_of(web, "GET", "/healthz") == 200


def slow(web: WebServer) -> socket.socket:
    """Return a connection whose client has sent half a request."""
    connection = socket.create_connection(("127.0.0.1", web.port), 20)
    connection.sendall(b"POST /webhook HTTP/1.1\r\nContent-Length: 9")
    return connection


def is_cut(connection: socket.socket, seconds: float = 20) -> bool:
    """Return whether the server ends a connection while its client sends a byte now and then."""
    end = time.monotonic() + seconds
    connection.settimeout(0.05)
    while time.monotonic() < end:
        try:
            connection.sendall(b"9")
            if connection.recv(1) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_a_client_that_sends_a_byte_now_and_then_is_cut_off(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.5)
    with slow(web) as connection:
        assert is_cut(connection)


@pytest.mark.parametrize("source", ["answers", "metrics"])
def test_slow_clients_hold_few_threads_and_keep_nobody_away(source: str) -> None:
    before = threading.active_count()
    answers = WebHandlers(lambda: True, lambda: True, lambda: None)
    metrics = MetricsSource("text/plain", lambda: b"up 1\n")
    web = WebServer("127.0.0.1", 0, answers if source == "answers" else metrics)
    path = "/healthz" if source == "answers" else "/metrics"
    held: list[socket.socket] = []
    try:
        for number in range(6 * MAX_CONNECTIONS):
            held.append(slow(web))
            if number % 16 == 0:
                assert status_of(web, "GET", path) == 200
        assert status_of(web, "GET", path) == 200
        assert is_cut(held[0])
        assert threading.active_count() - before <= 2 * MAX_CONNECTIONS
    finally:
        for connection in held:
            connection.close()
        web.close()


def test_the_address_with_the_most_connections_makes_room(web: WebServer) -> None:
    def of(address: str) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", web.port), 20, (address, 0))
        connection.sendall(b"GET /heal")
        return connection

    probe = of("127.0.0.2")
    held = [of("127.0.0.3") for _ in range(2 * MAX_CONNECTIONS)]
    probe.sendall(b"thz HTTP/1.0\r\n\r\n")
    assert probe.recv(1 << 10).startswith(b"HTTP/1.0 200")
    for connection in (probe, *held):
        connection.close()


def test_webhooks_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    now, times, timers = 100.0, list[float](), list[tuple[float, Callable[[], None]]]()

    def create_timer(wait: float, function: Callable[[], None]) -> Mock:
        return Mock(start=lambda: timers.append((now + wait, function)))

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(threading, "Timer", create_timer)
    gathered = Throttle(lambda: times.append(now), 0.5)
    for _ in range(8):
        for _ in range(3):
            gathered()
        now += 0.25
        while timers and timers[0][0] <= now:
            timers.pop(0)[1]()
    assert times == [100.0, 100.5, 101.0, 101.5, 102.0], "the first at once, then one in each gap"
    now += 1
    gathered()
    assert times[-1] == now, "at once after a quiet time"
