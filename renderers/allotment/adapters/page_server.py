"""Serves a folder of pages over HTTP: with a strict Content Security Policy, entity tags and compression."""

from __future__ import annotations

import gzip
import hashlib
import html
import os
import re
import stat
import threading
from collections import OrderedDict
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, Protocol

from allotment.adapters.http_server import HttpServer, RequestHandler

MAX_FILE_BYTES = 4 << 20
MAX_CACHED_BYTES = 32 << 20  # of compressed and plain pages in memory
_MIN_COMPRESSED_BYTES = 1_000  # a smaller page gains nothing
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".ics": "text/calendar; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
_CHOICES = (
    '<!DOCTYPE html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Choose</title>'
    '<link rel="stylesheet" href="/assets/portal.css"></head><body><main><h1>Choose a page</h1>'
)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # A browser keeps a page, but asks whether it is current. No shared cache keeps a page, because it may be a tenant's.
    "Cache-Control": "private, no-cache",
    "Vary": "Accept-Encoding",
}


class _CachedPage(NamedTuple):
    """The content of a file of a state (inode, size and times), its tag, and its compressed form if it is smaller."""

    state: tuple[int, int, int, int]
    content: bytes
    tag: str
    compressed: bytes | None


class _PageCache:
    """Reads the files of a folder, and keeps those that were read last."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder)
        self._lock = threading.Lock()
        self._pages: OrderedDict[str, _CachedPage] = OrderedDict()
        self._size = 0

    def read(self, path: str) -> _CachedPage | None:
        """Return the file at a path below the folder; None if there is no regular file."""
        try:
            target = os.path.join(self._folder, path)
            if os.path.realpath(target) != target:  # a link, also among the folders above the file
                return None
            descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
                return None
            state = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
            with self._lock:
                page = self._pages.get(path)
                if page is not None and page.state == state:
                    self._pages.move_to_end(path)
                    return page
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read()
        finally:
            os.close(descriptor)
        compressed = gzip.compress(content, 6, mtime=0) if len(content) >= _MIN_COMPRESSED_BYTES else None
        page = _CachedPage(state, content, hashlib.sha256(content).hexdigest()[:32], compressed)
        self._store(path, page)
        return page

    def _store(self, path: str, page: _CachedPage) -> None:
        with self._lock:
            self._remove(path)
            self._pages[path] = page
            self._size += _count_bytes(page)
            while self._size > MAX_CACHED_BYTES:
                self._remove(next(iter(self._pages)))

    def _remove(self, path: str) -> None:
        page = self._pages.pop(path, None)
        self._size -= _count_bytes(page) if page is not None else 0


def _count_bytes(page: _CachedPage) -> int:
    return len(page.content) + len(page.compressed or b"")


class Decision(NamedTuple):
    """The status of the answer to a request.

    The status is OK, FOUND or MOVED_PERMANENTLY with the address of a redirect, MULTIPLE_CHOICES with addresses to choose from, or
    that of a refusal with a reason for people.
    """

    status: HTTPStatus
    addresses: tuple[str, ...] = ()
    reason: str = ""


class Gate(Protocol):
    """Decides whether a request may read a page."""

    def decide(self, path: str, headers: tuple[str | None, ...]) -> Decision:
        """Return the decision about a request. `headers` has the values of the chosen headers."""
        ...


class PageHandler(RequestHandler):
    """Answers GET and HEAD with the pages of the folder `pages`. Everything else is not found.

    `gate` decides about each request by its path and its headers with the names `header_names`.
    """

    pages: _PageCache
    gate: Gate
    header_names: tuple[str, ...]

    def do_GET(self) -> None:  # noqa: N802  # the name of the base class
        self._answer(with_body=True)

    def do_HEAD(self) -> None:  # noqa: N802  # the name of the base class
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        if len(self.headers.get_all("Host", [])) > 1:  # RFC 9112, section 3.2
            decision = Decision(HTTPStatus.BAD_REQUEST, reason="A request has only one header Host.")
            self._send_decision(decision, with_body=with_body)
            return
        path = find_page_path(self.request_path)
        if path is not None:
            decision = self.gate.decide(path, tuple(self._read_header(name) for name in self.header_names))
            if decision.status != HTTPStatus.OK:
                self._send_decision(decision, with_body=with_body)
                return
        page = self.pages.read(path) if path is not None else None
        if page is None:
            if path is not None and self.pages.read(f"{path}/index.html") is not None:
                self._send_decision(Decision(HTTPStatus.MOVED_PERMANENTLY, (f"/{path}/",)), with_body=with_body)
                return
            self._send_not_found_page(is_allowed=path is not None, with_body=with_body)
            return
        assert path is not None
        is_compressed = page.compressed is not None and _accepts_gzip(self.headers.get("Accept-Encoding", ""))
        tag = f'"{page.tag}{"-gzip" if is_compressed else ""}"'
        headers = {"ETag": tag, "Content-Type": _TYPES.get(os.path.splitext(path)[1], "application/octet-stream")}
        if tag in [word.strip().removeprefix("W/") for word in self.headers.get("If-None-Match", "").split(",")]:
            self._send_page(HTTPStatus.NOT_MODIFIED, headers, b"", with_body=False)
            return
        if is_compressed:
            headers["Content-Encoding"] = "gzip"
        body = page.compressed if is_compressed and page.compressed is not None else page.content
        self._send_page(HTTPStatus.OK, headers, body, with_body=with_body)

    def _send_not_found_page(self, *, is_allowed: bool, with_body: bool) -> None:
        """Send 404.html, as static hosts do, if the gate has allowed the request, and otherwise a text."""
        page = self.pages.read("404.html") if is_allowed else None
        kind, body = (_TYPES[".html"], page.content) if page is not None else ("text/plain", b"no such page\n")
        self._send_page(HTTPStatus.NOT_FOUND, {"Content-Type": kind}, body, with_body=with_body)

    def _read_header(self, name: str) -> str | None:
        """Return the value of a header; None if it is absent, or if a request has it several times, which no gateway sends."""
        values = self.headers.get_all(name, [])
        return values[0] if len(values) == 1 else None

    def _send_decision(self, decision: Decision, *, with_body: bool) -> None:
        status, addresses, reason = decision
        if status == HTTPStatus.MULTIPLE_CHOICES:
            links = "".join(f'<li><a href="{html.escape(each)}">{html.escape(each)}</a></li>' for each in addresses)
            body = f"{_CHOICES}<ul>{links}</ul></main></body></html>\n".encode()
            self._send_page(status, {"Content-Type": _TYPES[".html"]}, body, with_body=with_body)
            return
        headers = {"Content-Type": "text/plain; charset=utf-8", **({"Location": addresses[0]} if addresses else {})}
        self._send_page(status, headers, f"{reason}\n".encode() if reason else b"", with_body=with_body)

    def _send_page(self, status: HTTPStatus, headers: dict[str, str], body: bytes, *, with_body: bool) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


class PageServer(HttpServer):
    """Serves a folder of pages in threads of its own until it is closed."""

    def __init__(self, host: str, port: int, folder: Path, gate: Gate, header_names: tuple[str, ...]) -> None:
        values = {"pages": _PageCache(folder), "gate": gate, "header_names": header_names}
        super().__init__(host, port, type("PageHandler", (PageHandler,), values))


def find_page_path(url_path: str) -> str | None:
    """Return the path of the page at the path of a URL; None if the URL can't name a page. A folder has an index.html."""
    if not url_path.startswith("/"):
        return None
    path = f"{url_path[1:]}index.html" if url_path.endswith("/") else url_path[1:]
    parts = path.split("/")
    return path if all(_PART.fullmatch(part) for part in parts) else None


def _accepts_gzip(header: str) -> bool:
    """Return whether a client accepts gzip. A quality of 0 refuses it, and `*` stands for all other names (RFC 9110)."""
    accepted: dict[str, bool] = {}
    for word in header.lower().split(","):
        name, _, quality = word.partition(";")
        accepted[name.strip()] = quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return accepted.get("gzip", accepted.get("*", False))
