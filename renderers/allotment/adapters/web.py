"""What a running publisher answers over HTTP: whether it lives, whether it is ready, its metrics, and a webhook."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

MOST_BODY = 1 << 20  # bytes of a webhook's body that are read away
TIMEOUT = 10  # seconds that a client may take


class Answers(NamedTuple):
    """Where the answers come from. `woken` is called for a webhook; nothing that it carries is read or believed."""

    alive: Callable[[], bool]
    ready: Callable[[], bool]
    metrics: Callable[[], tuple[str, bytes]]
    woken: Callable[[], None]


class Web:
    """A server that answers in threads of its own until it is closed."""

    def __init__(self, host: str, port: int, answers: Answers) -> None:
        class Request(_Request):
            pass

        Request.answers = answers
        self._server = _Server((host, port), Request)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away before its answer; of anything else what the library says."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    answers: Answers
    timeout = TIMEOUT
    server_version = "allotment"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._say(self.answers.alive())
        elif path == "/readyz":
            self._say(self.answers.ready())
        elif path == "/metrics":
            kind, body = self.answers.metrics()
            self._send(HTTPStatus.OK, kind, body)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if self.path.partition("?")[0] != "/webhook":
            self.close_connection = True
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")
            return
        if not length.isascii() or not length.isdigit() or int(length) > MOST_BODY:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"too long\n")
            return
        self.rfile.read(int(length))
        self.answers.woken()
        self._send(HTTPStatus.ACCEPTED, "text/plain", b"looking\n")

    def _say(self, good: bool) -> None:
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(status, "text/plain", b"ok\n" if good else b"no\n")

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the library's name
        """Say nothing of each request: probes come every few seconds."""
