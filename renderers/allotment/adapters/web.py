"""What a running program of ours answers over HTTP: whether it lives, whether it is ready, and a webhook; its
metrics on a port of their own, which nobody else is to reach."""

from __future__ import annotations

import contextlib
import hmac
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

MOST_BODY = 1 << 20  # bytes of a webhook's body; what says more is found by the next look
_DIGITS = re.compile(r"[0-9]{1,10}")
_PART = 1 << 16
GAP = 5.0  # seconds between two rounds that a webhook begins, at least
# Each has the HMAC-SHA256 of the body, in hexadecimal digits, after a prefix.
_SIGNATURES = (
    ("X-Hub-Signature-256", "sha256="),  # GitHub, and the others as well
    ("X-Gitea-Signature", ""),
    ("X-Forgejo-Signature", ""),
)
_GITLAB = "X-Gitlab-Token"  # the secret itself
TIMEOUT = 10  # seconds that a connection may last, however often its client sends something
MOST_CONNECTIONS = 32  # at once; of a request's head the library holds up to 6 MB


Came = Literal["taken", "unsigned", "wrong"]


class Answers(NamedTuple):
    """Where the answers come from. `woken` is called for a webhook that is signed with `secret`, for any where
    there is none; nothing else that it carries is read or believed. `came` is called with what became of it.
    """

    alive: Callable[[], bool]
    ready: Callable[[], bool]
    woken: Callable[[], None]
    came: Callable[[Came], None] = lambda _: None
    secret: bytes = b""


class MetricsSource(NamedTuple):
    """Where the metrics come from: their content type, and their text now."""

    kind: str
    text: Callable[[], bytes]


class Gathered:
    """Passes calls on: the first one after a quiet time at once, those that come within GAP of it as one when that
    is over."""

    def __init__(self, woken: Callable[[], None], gap: float = GAP) -> None:
        self._woken, self._gap = woken, gap
        self._lock = threading.Lock()
        self._next = 0.0
        self._waits = False

    def __call__(self) -> None:
        """Pass this one on, now or later, with others."""
        with self._lock:
            if self._waits:
                return
            wait = self._next - time.monotonic()
            if wait > 0:
                self._waits = True
                timer = threading.Timer(wait, self._later)
                timer.daemon = True
                timer.start()
                return
            self._next = time.monotonic() + self._gap
        self._woken()

    def _later(self) -> None:
        with self._lock:
            self._waits = False
            self._next = time.monotonic() + self._gap
        self._woken()


class Web:
    """A server that answers in threads of its own until it is closed."""

    def __init__(self, host: str, port: int, answers: Answers | MetricsSource) -> None:
        kind: type[_Request] = _Asked if isinstance(answers, Answers) else _Counted
        self._server = _Server((host, port), type(kind.__name__, (kind,), {"answers": answers}))
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
    """Holds a limited number of connections, each for a limited time.

    Beyond the limit a new connection takes the place of the oldest from the address that has the most. So a client that holds
    the limit keeps nobody else away: a probe takes milliseconds, and its connection is never the oldest.
    """

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._open: dict[
            Any, tuple[str, float]
        ] = {}  # sockets with their client's address and deadline, the oldest first
        super().__init__(place, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own; make room for it first."""
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                addresses = [address for address, _ in self._open.values()]
                crowd = max(addresses, key=addresses.count)
                self._cut(next(connection for connection, (address, _) in self._open.items() if address == crowd))
            self._open[request] = client_address[0], time.monotonic() + TIMEOUT
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut the connections that have lasted too long; the library calls this several times a second."""
        with self._lock:
            for connection in [connection for connection, (_, end) in self._open.items() if time.monotonic() > end]:
                self._cut(connection)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection, and close it."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _cut(self, request: Any) -> None:
        """End a connection at once: its thread, which waits for the client, sees the end of it. The caller holds the lock."""
        del self._open[request]
        with contextlib.suppress(OSError):  # the client was quicker
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away before its answer; of anything else what the library says."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server_version = "allotment"
    sys_version = ""

    @property
    def page(self) -> str:
        """What is asked for."""
        return self.path.partition("?")[0]

    def _none(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    def do_GET(self) -> None:
        self._none()

    def do_POST(self) -> None:
        self._none()

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the library's name
        """Say nothing of each request: probes come every few seconds."""


class _Counted(_Request):
    answers: MetricsSource

    def do_GET(self) -> None:
        if self.page == "/metrics":
            self._send(HTTPStatus.OK, self.answers.kind, self.answers.text())
        else:
            self._none()


class _Asked(_Request):
    answers: Answers

    def do_GET(self) -> None:
        if self.page == "/healthz":
            self._say(self.answers.alive())
        elif self.page == "/readyz":
            self._say(self.answers.ready())
        else:
            self._none()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if self.page != "/webhook":
            self._none()
            return
        if not _DIGITS.fullmatch(length) or int(length) > MOST_BODY:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"too long\n")
            return
        came = self._came(int(length))
        self.answers.came(came)
        if came == "taken":
            self.answers.woken()
            self._send(HTTPStatus.ACCEPTED, "text/plain", b"looking\n")
        else:
            status = HTTPStatus.UNAUTHORIZED if came == "unsigned" else HTTPStatus.FORBIDDEN
            self._send(status, "text/plain", b"not signed with the secret\n")

    def _came(self, length: int) -> Came:
        """Read a body away; return whether it is signed. It is never held as a whole."""
        secret = self.answers.secret
        digest = hmac.new(secret, digestmod="sha256")
        while length > 0:
            part = self.rfile.read(min(length, _PART))
            if not part:
                self.close_connection = True
                break
            digest.update(part)
            length -= len(part)
        if not secret:
            return "taken"
        signatures = [(self.headers.get(name), prefix + digest.hexdigest()) for name, prefix in _SIGNATURES]
        signatures.append((self.headers.get(_GITLAB), secret.decode("utf-8")))
        pairs = [
            (value.encode("utf-8", "replace"), wanted.encode()) for value, wanted in signatures if value is not None
        ]
        if not pairs:
            return "unsigned"
        return "taken" if any(hmac.compare_digest(*pair) for pair in pairs) else "wrong"

    def _say(self, good: bool) -> None:
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(status, "text/plain", b"ok\n" if good else b"no\n")
