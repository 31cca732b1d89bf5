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

MAX_BODY_BYTES = 1 << 20  # bytes of a webhook's body; what says more is found by the next look
_DIGITS = re.compile(r"[0-9]{1,10}")
_CHUNK_BYTES = 1 << 16
MIN_INTERVAL = 5.0  # seconds between two rounds that a webhook begins, at least
# Each has the HMAC-SHA256 of the body, in hexadecimal digits, after a prefix.
_SIGNATURE_HEADERS = (
    ("X-Hub-Signature-256", "sha256="),  # GitHub, and the others as well
    ("X-Gitea-Signature", ""),
    ("X-Forgejo-Signature", ""),
)
_GITLAB_HEADER = "X-Gitlab-Token"  # the secret itself
TIMEOUT = 10  # seconds that a connection may last, however often its client sends something
MAX_CONNECTIONS = 32  # at once; of a request's head the library holds up to 6 MB


WebhookOutcome = Literal["taken", "unsigned", "wrong"]


class WebHandlers(NamedTuple):
    """Where the answers come from. `on_webhook` is called for a webhook that is signed with `secret`, for any where
    there is none; nothing else that it carries is read or believed. `on_webhook_outcome` is called with what became of it.
    """

    is_alive: Callable[[], bool]
    is_ready: Callable[[], bool]
    on_webhook: Callable[[], None]
    on_webhook_outcome: Callable[[WebhookOutcome], None] = lambda _: None
    secret: bytes = b""


class MetricsSource(NamedTuple):
    """Where the metrics come from: their content type, and their text now."""

    content_type: str
    text: Callable[[], bytes]


class Throttle:
    """Passes calls on: the first one after a quiet time at once, those that come within GAP of it as one when that
    is over."""

    def __init__(self, woken: Callable[[], None], gap: float = MIN_INTERVAL) -> None:
        self._callback, self._min_interval = woken, gap
        self._lock = threading.Lock()
        self._next_call = 0.0
        self._is_waiting = False

    def __call__(self) -> None:
        """Pass this one on, now or later, with others."""
        with self._lock:
            if self._is_waiting:
                return
            wait = self._next_call - time.monotonic()
            if wait > 0:
                self._is_waiting = True
                timer = threading.Timer(wait, self._run_delayed)
                timer.daemon = True
                timer.start()
                return
            self._next_call = time.monotonic() + self._min_interval
        self._callback()

    def _run_delayed(self) -> None:
        with self._lock:
            self._is_waiting = False
            self._next_call = time.monotonic() + self._min_interval
        self._callback()


class WebServer:
    """A server that answers in threads of its own until it is closed."""

    def __init__(self, host: str, port: int, answers: WebHandlers | MetricsSource) -> None:
        kind: type[_RequestHandler] = _ProbeHandler if isinstance(answers, WebHandlers) else _MetricsHandler
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
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._lock = threading.Lock()
        self._connections: dict[
            Any, tuple[str, float]
        ] = {}  # sockets with their client's address and deadline, the oldest first
        super().__init__(place, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own; make room for it first."""
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                addresses = [address for address, _ in self._connections.values()]
                crowd = max(addresses, key=addresses.count)
                self._close_connection(
                    next(connection for connection, (address, _) in self._connections.items() if address == crowd)
                )
            self._connections[request] = client_address[0], time.monotonic() + TIMEOUT
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut the connections that have lasted too long; the library calls this several times a second."""
        with self._lock:
            for connection in [
                connection for connection, (_, end) in self._connections.items() if time.monotonic() > end
            ]:
                self._close_connection(connection)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection, and close it."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def _close_connection(self, request: Any) -> None:
        """End a connection at once: its thread, which waits for the client, sees the end of it. The caller holds the lock."""
        del self._connections[request]
        with contextlib.suppress(OSError):  # the client was quicker
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away before its answer; of anything else what the library says."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _RequestHandler(BaseHTTPRequestHandler):
    timeout = TIMEOUT
    server_version = "allotment"
    sys_version = ""

    @property
    def request_path(self) -> str:
        """What is asked for."""
        return self.path.partition("?")[0]

    def _send_not_found(self) -> None:
        self.close_connection = True
        self._send(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    def do_GET(self) -> None:
        self._send_not_found()

    def do_POST(self) -> None:
        self._send_not_found()

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # the library's name
        """Say nothing of each request: probes come every few seconds."""


class _MetricsHandler(_RequestHandler):
    answers: MetricsSource

    def do_GET(self) -> None:
        if self.request_path == "/metrics":
            self._send(HTTPStatus.OK, self.answers.content_type, self.answers.text())
        else:
            self._send_not_found()


class _ProbeHandler(_RequestHandler):
    answers: WebHandlers

    def do_GET(self) -> None:
        if self.request_path == "/healthz":
            self._send_probe_result(self.answers.is_alive())
        elif self.request_path == "/readyz":
            self._send_probe_result(self.answers.is_ready())
        else:
            self._send_not_found()

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if self.request_path != "/webhook":
            self._send_not_found()
            return
        if not _DIGITS.fullmatch(length) or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"too long\n")
            return
        came = self._check_signature(int(length))
        self.answers.on_webhook_outcome(came)
        if came == "taken":
            self.answers.on_webhook()
            self._send(HTTPStatus.ACCEPTED, "text/plain", b"looking\n")
        else:
            status = HTTPStatus.UNAUTHORIZED if came == "unsigned" else HTTPStatus.FORBIDDEN
            self._send(status, "text/plain", b"not signed with the secret\n")

    def _check_signature(self, length: int) -> WebhookOutcome:
        """Read a body away; return whether it is signed. It is never held as a whole."""
        secret = self.answers.secret
        digest = hmac.new(secret, digestmod="sha256")
        while length > 0:
            part = self.rfile.read(min(length, _CHUNK_BYTES))
            if not part:
                self.close_connection = True
                break
            digest.update(part)
            length -= len(part)
        if not secret:
            return "taken"
        signatures = [(self.headers.get(name), prefix + digest.hexdigest()) for name, prefix in _SIGNATURE_HEADERS]
        signatures.append((self.headers.get(_GITLAB_HEADER), secret.decode("utf-8")))
        pairs = [
            (value.encode("utf-8", "replace"), signature.encode())
            for value, signature in signatures
            if value is not None
        ]
        if not pairs:
            return "unsigned"
        return "taken" if any(hmac.compare_digest(*pair) for pair in pairs) else "wrong"

    def _send_probe_result(self, good: bool) -> None:
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(status, "text/plain", b"ok\n" if good else b"no\n")
