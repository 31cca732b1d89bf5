"""Serves HTTP with limits: probes and a webhook on one port, and metrics on a second port, which should not be reachable from
outside."""

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

MAX_BODY_BYTES = 1 << 20  # bytes of a webhook's body; a larger webhook is refused, and the next poll finds the change
_DIGITS = re.compile(r"[0-9]{1,10}")
_CHUNK_BYTES = 1 << 16
MIN_INTERVAL = 5.0  # minimum seconds between two runs that webhooks start
# The headers that may have a signature, and the prefix of each signature. After the prefix, the signature is the
# HMAC-SHA256 of the body in hexadecimal digits.
_SIGNATURE_HEADERS = (
    ("X-Hub-Signature-256", "sha256="),  # GitHub, and also Gitea and Forgejo
    ("X-Gitea-Signature", ""),
    ("X-Forgejo-Signature", ""),
)
_GITLAB_HEADER = "X-Gitlab-Token"  # its value is the secret itself
TIMEOUT = 10  # seconds that a connection may last, even if its client keeps sending
MAX_CONNECTIONS = 32  # simultaneous connections; `http.server` holds up to 6 MB of headers for each


WebhookOutcome = Literal["taken", "unsigned", "wrong"]


class WebHandlers(NamedTuple):
    """The handlers of the requests.

    `on_webhook` is called for a webhook that is signed with `secret`, or for any webhook if `secret` is empty. The
    content of a webhook is not used. `on_webhook_outcome` is called with the outcome of each webhook.
    """

    is_alive: Callable[[], bool]
    is_ready: Callable[[], bool]
    on_webhook: Callable[[], None]
    on_webhook_outcome: Callable[[WebhookOutcome], None] = lambda _: None
    secret: bytes = b""


class MetricsSource(NamedTuple):
    """The content type of the metrics, and a function that returns their current text."""

    content_type: str
    text: Callable[[], bytes]


class Throttle:
    """Limits the rate of calls.

    Forwards the first call at once. Merges all calls of the next `gap` seconds into one call, and forwards this call at
    the end of that time.
    """

    def __init__(self, on_wake: Callable[[], None], gap: float = MIN_INTERVAL) -> None:
        self._callback, self._min_interval = on_wake, gap
        self._lock = threading.Lock()
        self._next_call = 0.0
        self._is_waiting = False

    def __call__(self) -> None:
        """Forward this call at once, or merge it with other calls into one later call."""
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


class HttpServer:
    """A server that answers in its own threads until it is closed."""

    def __init__(self, host: str, port: int, handler: type[RequestHandler]) -> None:
        self._server = _Server((host, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


class WebServer(HttpServer):
    """A server of probes and webhooks, or of metrics."""

    def __init__(self, host: str, port: int, answers: WebHandlers | MetricsSource) -> None:
        kind: type[RequestHandler] = _ProbeHandler if isinstance(answers, WebHandlers) else _MetricsHandler
        super().__init__(host, port, type(kind.__name__, (kind,), {"answers": answers}))


class _Server(ThreadingHTTPServer):
    """Holds a limited number of connections, each for a limited time.

    When the limit is reached and a client connects, the server first closes another connection: the oldest connection
    of the client address with the most connections. Therefore, a client that opens many connections cannot block a
    probe. A probe takes only milliseconds, so its connection is never the oldest.
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
        """Answer a connection in its own thread. Close another connection first if the limit is reached."""
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
        """Close the connections beyond their deadline. The library calls this method several times a second."""
        with self._lock:
            for connection in [
                connection for connection, (_, end) in self._connections.items() if time.monotonic() > end
            ]:
                self._close_connection(connection)

    def shutdown_request(self, request: Any) -> None:
        """Forget and close a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def _close_connection(self, request: Any) -> None:
        """Shut down a connection, so that its thread stops waiting for the client. The caller holds the lock."""
        del self._connections[request]
        with contextlib.suppress(OSError):  # the client may already have closed the connection
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnects before it gets its answer. Report other errors as the library does."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class RequestHandler(BaseHTTPRequestHandler):
    """Answers requests. It finds no page by itself."""

    timeout = TIMEOUT
    server_version = "allotment"
    sys_version = ""

    @property
    def request_path(self) -> str:
        """The requested path without its query."""
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

    def log_message(self, format: str, *args: Any) -> None:  # the base class names it `format`
        """Log no requests: probes come every few seconds."""


class _MetricsHandler(RequestHandler):
    answers: MetricsSource

    def do_GET(self) -> None:
        if self.request_path == "/metrics":
            self._send(HTTPStatus.OK, self.answers.content_type, self.answers.text())
        else:
            self._send_not_found()


class _ProbeHandler(RequestHandler):
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
        outcome = self._check_signature(int(length))
        self.answers.on_webhook_outcome(outcome)
        if outcome == "taken":
            self.answers.on_webhook()
            self._send(HTTPStatus.ACCEPTED, "text/plain", b"looking\n")
        else:
            status = HTTPStatus.UNAUTHORIZED if outcome == "unsigned" else HTTPStatus.FORBIDDEN
            self._send(status, "text/plain", b"not signed with the secret\n")

    def _check_signature(self, length: int) -> WebhookOutcome:
        """Return `taken` if a body is signed with the secret or no secret is set, else `unsigned` or `wrong`.

        Reads the body in chunks, so that memory never holds all of it.
        """
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
