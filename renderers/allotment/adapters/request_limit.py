"""Limits the time of a whole request over HTTP: the connection, the headers and the body.

The timeouts of urllib3 hold for each packet alone. A server that sends a byte now and then never exceeds them.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import urllib3

from allotment.adapters.http_responses import ApiUnavailable

_started = threading.local()  # the connections of the request that this thread sends, and their sockets


class RequestTooSlow(urllib3.exceptions.TimeoutError):
    """A request took longer than its limit."""


class _HTTPConnection(urllib3.connection.HTTPConnection):
    """A connection that the time limit of its thread can end."""

    def connect(self) -> None:
        _register("connections", self)
        super().connect()
        _register("sockets", self.sock)

    def request(self, *arguments: Any, **options: Any) -> None:
        _register("connections", self)
        super().request(*arguments, **options)

    def getresponse(self) -> Any:
        _register("sockets", self.sock)  # a connection forgets its socket when the server closes it after the body
        return super().getresponse()


class _HTTPSConnection(_HTTPConnection, urllib3.connection.HTTPSConnection):
    """The same with TLS."""


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


LIMITED_POOLS = {"http": _HTTPPool, "https": _HTTPSPool}  # a value for PoolManager.pool_classes_by_scheme


@contextlib.contextmanager
def limit_request(seconds: float) -> Iterator[None]:
    """End the connections of LIMITED_POOLS that this thread uses in the block after some seconds. Raises RequestTooSlow then.

    A limit within another limit is for its own connections.
    """
    connections: list[urllib3.connection.HTTPConnection] = []
    sockets: list[socket.socket | None] = []
    has_expired = threading.Event()

    def end() -> None:
        has_expired.set()
        for open_socket in (*sockets, *(connection.sock for connection in connections)):
            if open_socket is not None:
                with contextlib.suppress(OSError):
                    open_socket.shutdown(socket.SHUT_RDWR)

    outer = _started.__dict__.copy()
    _started.connections, _started.sockets, _started.has_expired = connections, sockets, has_expired
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, urllib3.exceptions.HTTPError, ApiUnavailable):  # the errors of requests are OSErrors
        if not has_expired.is_set():
            raise
    finally:
        timer.cancel()
        _started.__dict__.clear()
        _started.__dict__.update(outer)
    if has_expired.is_set():  # an ended connection can look like the end of a body
        raise RequestTooSlow(f"no answer within {seconds:.0f} s")


def _register(name: str, item: object) -> None:
    """Add an item to a list of the limit of this thread. Raises RequestTooSlow if the limit has expired."""
    getattr(_started, name, []).append(item)
    if hasattr(_started, "has_expired") and _started.has_expired.is_set():
        raise RequestTooSlow("the limit of this request has expired")
