"""Serves a folder of pages, and opens them in Chromium."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")


class _Pages(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        """Write no access log."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder while the block runs, and yield its address."""
    handler = functools.partial(_Pages, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@contextmanager
def launch() -> Iterator[Browser]:
    """Start Chromium while the block runs."""
    from playwright.sync_api import sync_playwright

    assert BROWSER is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def wait_for_form(page: Page) -> None:
    """Wait until the form of a page, if it has a form, has loaded the offers."""
    if page.locator("#change").count():
        page.wait_for_selector("#without-scripts[hidden]", state="attached")


class Visit:
    """A page with the requests that it sent and the errors that the browser reported."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.bytes = 0
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("response", self._add_bytes)

    def _add_bytes(self, response: Any) -> None:
        self.bytes += int(response.headers.get("content-length", "0"))

    def open(self, url: str) -> None:
        """Open a page, and wait until its scripts have run."""
        self.requests.clear()
        self.bytes = 0
        self.page.goto(url)
        wait_for_form(self.page)
