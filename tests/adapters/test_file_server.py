"""A file server's answer decides whether a copy repeats the request."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from allotment.adapters.file_server import FileServer, TransferError


class FailingHandler(BaseHTTPRequestHandler):
    """Answers each request with 500, as dufs answers a read when it deletes the file at that moment."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


for method in ("HEAD", "GET", "PUT", "MOVE"):
    setattr(FailingHandler, f"do_{method}", FailingHandler.answer)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with HTTPServer(("127.0.0.1", 0), FailingHandler) as listener:
        thread = Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        with FileServer(lambda: http.client.HTTPConnection("127.0.0.1", listener.server_port)) as server:
            yield server
        listener.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("request_server", "is_temporary"),
    [
        (lambda server: server.find_entry("/a"), True),
        (lambda server: server.read_hash("/a", 1), True),
        (lambda server: server.write_file("/a", [b"a"], 1), False),
        (lambda server: server.move("/a", "/b"), False),
    ],
    ids=["find", "hash", "write", "move"],
)
def test_an_internal_error_of_a_read_is_temporary(
    request_server: Callable[[FileServer], object], is_temporary: bool, server: FileServer
) -> None:
    with pytest.raises(TransferError, match="was answered with 500") as caught:
        request_server(server)
    assert (caught.value.is_temporary, caught.value.status) == (is_temporary, 500)
