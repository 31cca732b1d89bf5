"""The web port over real sockets: odd requests, and clients that hold connections."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from allotment.adapters.web import Answers, Web


@pytest.fixture
def web() -> Iterator[Web]:
    """Yield a server that is alive, ready, and wants no signature."""
    server = Web("127.0.0.1", 0, Answers(lambda: True, lambda: True, lambda: None))
    yield server
    server.close()


def status_of(web: Web, method: str, path: str, **headers: str) -> int:
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
def test_a_length_that_is_none_or_too_long(length: str, web: Web, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(web, "POST", "/webhook", Content_Length=length) == 413
    assert capsys.readouterr().err == ""
    assert status_of(web, "GET", "/healthz") == 200
