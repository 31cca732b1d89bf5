"""A registry that answers as a test says: what a fault of a registry, or a hostile one, looks like on the wire."""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from tests.controlplane.secure import AUTHORITY, CERTIFICATE, certify

MANIFEST = json.dumps({"schemaVersion": 2, "config": {}, "layers": []}).encode()
INDEX = json.dumps({"schemaVersion": 2, "manifests": []}).encode()


def digest_of(body: bytes) -> str:
    """Return the digest under which a registry has a manifest."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class Request(NamedTuple):
    """A request as the registry got it."""

    method: str
    path: str
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """What the registry answers."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


class _Server(ThreadingHTTPServer):
    """A server that prints no error of a connection: a command in the same process may own standard error by then."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the client reports a refused certificate itself."""


class Registry:
    """A registry at `host`, with the requests that it got, and those to connect to a host as a proxy."""

    def __init__(self, answer: Callable[[Request], Answer], context: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.connects: list[Request] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                request = Request(self.command, self.path, {**self.headers})
                outer.requests.append(request)
                given = answer(request)
                self.send_response(given.status)
                for name, value in {"Content-Length": str(len(given.body)), **given.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(given.body)

            do_HEAD = do_GET  # noqa: N815  # the name that the library asks for

            def do_CONNECT(self) -> None:
                assert context is not None
                outer.connects.append(Request(self.command, self.path, {**self.headers}))
                self.send_response(200)
                self.end_headers()
                self.connection = context.wrap_socket(self.connection, server_side=True)
                self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)  # type: ignore[assignment]  # as the base class opens them
                self.close_connection = False

            def finish(self) -> None:
                super().finish()
                self.connection.close()

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._serving = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._serving.start()

    @property
    def host(self) -> str:
        """The name of the registry in an image's name."""
        return f"127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._serving.join()


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[Registry]:
    """Yield a registry that answers with a function."""
    registry = Registry(answer)
    try:
        yield registry
    finally:
        registry.close()


@contextmanager
def serving_https(
    folder: Path, names: Sequence[str], answer: Callable[[Request], Answer]
) -> Iterator[tuple[Registry, dict[str, str]]]:
    """Yield an HTTPS server that plays hosts of the internet, and the variables with which a program reaches it.

    It is a proxy, so a program asks it to connect to a host, and it answers in the name of this host.
    """
    certify(folder, names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE)
    registry = Registry(answer, context)
    variables = {"https_proxy": f"http://{registry.host}", "no_proxy": "", "SSL_CERT_FILE": str(folder / AUTHORITY)}
    try:
        yield registry, variables
    finally:
        registry.close()
