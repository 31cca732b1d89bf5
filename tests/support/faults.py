"""An API server that does what a real one won't do on demand: answers by script, request after request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from allotment.adapters.cluster.api import ApiServer

Object = dict[str, Any]


class Request(BaseHTTPRequestHandler):
    """One request: what was asked, and ways to answer."""

    protocol_version = "HTTP/1.1"
    server: Server  # type: ignore[assignment]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        self.request_path = parts.path
        self.watches = self.query.get("watch") == "true"
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.requests.append(self)
            answer = next(self.server.script, None)
        if answer is None:
            answer = stays if self.watches else self.server.otherwise
        self.close_connection = True
        try:
            answer(self)
        except (BrokenPipeError, ConnectionResetError):
            return

    do_PATCH = do_DELETE = do_GET  # noqa: N815  # the names of http.server

    def log_message(self, format: str, *args: Any) -> None:
        return

    def begin(self, status: int = 200, **headers: str) -> None:
        """Send the status and headers of a stream that ends when the connection does."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()

    def say(self, *events: Object | bytes) -> None:
        """Send events of a watch, a line each; bytes as they are."""
        for event in events:
            self.wfile.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
        self.wfile.flush()

    def whole(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Send a whole answer."""
        self.begin(status, Content_Length=str(len(body)), **headers)
        self.wfile.write(body)
        self.wfile.flush()


Answer = Callable[[Request], None]


class Server(ThreadingHTTPServer):
    """The server: `script` has its next answers, `otherwise` answers lists after the script's end."""

    daemon_threads = True
    request_queue_size = 128  # each kind is listed at once, and a refused connection is tried again after a second

    def __init__(self, *script: Answer, otherwise: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.lock = threading.Lock()
        self.script: Iterator[Answer] = iter(script)
        self.requests: list[Request] = []
        self.otherwise = otherwise
        self.ending = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        return

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def lists(self) -> int:
        """Return how many lists were asked for; further pages don't count."""
        return sum(not request.watches and "continue" not in request.query for request in self.requests)

    def watches(self) -> list[str]:
        """Return the versions that watches began from."""
        return [request.query["resourceVersion"] for request in self.requests if request.watches]


@contextmanager
def serving(*script: Answer, otherwise: Answer) -> Iterator[Server]:
    """Serve for a while."""
    server = Server(*script, otherwise=otherwise)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


def api_of(server: Server, token: Callable[[], str] | None = None) -> ApiServer:
    """Return the server as our adapter talks to it."""
    from kubernetes.client import Configuration  # most tests that import this module need no client

    def load() -> Configuration:
        configuration = Configuration(host=server.url)
        if token is not None:
            configuration.api_key = {"authorization": f"Bearer {token()}"}
        return configuration

    return ApiServer(load)


def listed(*objects: Object, version: str = "10", more: str = "") -> Answer:
    """Answer a list."""
    body = {"metadata": {"resourceVersion": version, **({"continue": more} if more else {})}, "items": list(objects)}
    return lambda request: request.whole(json.dumps(body).encode())


def watched(*events: Object | bytes, then: float = 0) -> Answer:
    """Answer a watch with events, and end it after some seconds."""

    def answer(request: Request) -> None:
        request.begin()
        request.say(*events)
        time.sleep(then)

    return answer


def stays(request: Request) -> None:
    """Keep a watch open, silent."""
    request.begin()
    request.server.ending.wait(30)


def fails(status: int, **headers: str) -> Answer:
    """Answer with an error."""
    return lambda request: request.whole(b"{}", status, **headers)


def event(kind: str, live_object: Object, version: str) -> Object:
    """Return an event of a watch."""
    return {
        "type": kind,
        "object": {**live_object, "metadata": {**live_object["metadata"], "resourceVersion": version}},
    }


def bookmark(version: str) -> Object:
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": version}}}


def error(code: int) -> Object:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": "Expired", "message": "@everyone"}}
