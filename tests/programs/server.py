"""A server of files that does what a real one won't on demand: it breaks off, forgets ranges, is busy, and sends elsewhere."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from allotment.programs.download import Connect, Headers, Web, no_headers

Answer = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """A request, and ways to answer it."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer is one segment: two would wait for each other's acknowledgement
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range", "")))
        answer = next(self.server.script, None) or whole
        answer(self)

    def log_message(self, format: str, *args: object) -> None:
        return

    @property
    def body(self) -> bytes | None:
        """What is served at the path that was asked for, its query included or not."""
        files = self.server.files
        return files.get(unquote(self.path), files.get(unquote(urlsplit(self.path).path)))

    def say(self, status: int, body: bytes, owed: int = 0, **headers: str) -> None:
        """Answer; `owed` bytes are announced and never come."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) + owed))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        if owed:
            self.close_connection = True


class Server(ThreadingHTTPServer):
    """Serves `files` by path. The next requests are answered by `script`, all others as they should be."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.files = files
        self.script: Iterator[Answer] = iter(())
        self.requests: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.server_address[1]}"


def whole(request: Request) -> None:
    """Answer as asked, a range of it too."""
    body = request.body
    if body is None:
        request.say(404, b"")
        return
    begin = int(request.headers.get("Range", "bytes=0-")[6:-1])
    if begin > len(body):
        request.say(416, b"")
    elif begin:
        request.say(206, body[begin:], Content_Range=f"bytes {begin}-{len(body) - 1}/{len(body)}")
    else:
        request.say(200, body)


def breaks_off(after: int) -> Answer:
    """Answer that ends after some bytes, as if the connection were lost."""

    def answer(request: Request) -> None:
        body = request.body or b""
        begin = int(request.headers.get("Range", "bytes=0-")[6:-1])
        rest = body[begin:]
        sent = rest[:after]
        more = {"Content_Range": f"bytes {begin}-{len(body) - 1}/{len(body)}"} if begin else {}
        request.say(206 if begin else 200, sent, len(rest) - len(sent), **more)

    return answer


def without_ranges(request: Request) -> None:
    """Answer with all of it, whatever was asked."""
    request.say(200, request.body or b"")


def another_range(request: Request) -> None:
    """Answer with a part that wasn't asked for."""
    body = request.body or b""
    request.say(206, body[1:], Content_Range=f"bytes 1-{len(body) - 1}/{len(body)}")


def says(status: int) -> Answer:
    """Answer with nothing but a status."""
    return lambda request: request.say(status, b"")


def sends_to(url: str) -> Answer:
    """Answer with a redirect."""
    return lambda request: request.say(302, b"", Location=url)


@contextmanager
def serving(files: dict[str, bytes], *script: Answer) -> Iterator[Server]:
    """Serve files until the block ends."""
    with Server(files) as server:
        server.script = iter(script)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def local(url: str) -> http.client.HTTPConnection:
    """Return a connection to a server of a test's, which isn't of the internet."""
    parts = urlsplit(url)
    assert parts.scheme == "http", url
    return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)


_asking: list[Web] = []


def web(headers: Headers = no_headers, connect: Connect = local) -> Web:
    """Return what asks servers of tests, and hardly waits between tries; `close_all` ends its connection."""
    _asking.append(Web(connect, headers, wait=0.001))
    return _asking[-1]


def close_all() -> None:
    """End the connections of everything that `web` returned."""
    while _asking:
        _asking.pop().close()
