"""Receives the response of an identity provider to a login, at a port of the loopback."""

from __future__ import annotations

import hmac
import queue
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from allotment.problems import OperationRefused

CALLBACK_PATH = "/callback"
_CONNECTION_SECONDS = 10
_PAGE = "<!doctype html><meta charset=utf-8><title>Allotment</title><p>{}</p>\n"


class CallbackServer:
    """A server for a single login. Responses of the provider carry its secret `state`.

    As a context manager, the server answers requests until it exits. It ignores requests without the state, so a page of
    another origin can't end or replace the login.
    """

    def __init__(self, state: str, port: int = 0) -> None:
        """Listen at a port; 0 selects a free port. Raises OperationRefused if the port is in use."""
        self._responses: queue.Queue[dict[str, str]] = queue.Queue()
        handler = type("_BoundHandler", (_CallbackHandler,), {"state": state, "provider_responses": self._responses})
        try:
            self._server = _Server(("127.0.0.1", port), handler)
        except OSError as error:
            raise OperationRefused(
                f"no server can listen at port {port} of 127.0.0.1: {error.strerror}; choose another --port"
            ) from None

    @property
    def redirect_uri(self) -> str:
        """The URL to which the provider returns the person."""
        return f"http://localhost:{self._server.server_address[1]}{CALLBACK_PATH}"

    def wait(self, seconds: float) -> dict[str, str]:
        """Return the query of the provider's response. Raises TimeoutError after some seconds without a response."""
        try:
            return self._responses.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None

    def __enter__(self) -> CallbackServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that ends its connection early."""


class _CallbackHandler(BaseHTTPRequestHandler):
    timeout = _CONNECTION_SECONDS
    state: str
    provider_responses: queue.Queue[dict[str, str]]

    def do_GET(self) -> None:
        """Answer the browser."""
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        if parts.path != CALLBACK_PATH:
            self._send_page(HTTPStatus.NOT_FOUND, "There is no such page.")
        elif not hmac.compare_digest(query.get("state", "").encode(), self.state.encode()):
            self._send_page(HTTPStatus.BAD_REQUEST, "This response belongs to no login that runs now.")
        else:
            succeeded = "code" in query
            self._send_page(
                HTTPStatus.OK, "Continue in your terminal." if succeeded else "The login failed: see your terminal."
            )
            self.provider_responses.put(query)

    def _send_page(self, status: HTTPStatus, text: str) -> None:
        body = _PAGE.format(text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because the URL contains the code of the login."""
