"""A real browser in a node's world: Chromium opens pages and evaluates scripts in them.

`python -m tests.e2e.node.browser GATEWAY HOST ADDRESS`, with the host and the address of the issuer, reads a list of steps as JSON from standard input, and prints what each
script evaluates to. A step has one of `open` (a URL), `click` (the selector of an element that opens a page), `person` (who
logs in at the issuer of the tests from then on) and `forget` (true: all cookies are deleted), and may have a `script` (an
expression; a promise is awaited).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

from tests.controlplane import issuer
from tests.support.waiting import eventually

PATIENCE = 30  # seconds


class Browser:
    """Chromium, driven by its DevTools protocol."""

    def __init__(self, folder: Path, gateway: str, issuer_host: str, issuer_address: str) -> None:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise FileNotFoundError("chromium is not installed")
        rules = f"MAP {issuer_host} {issuer_address}, MAP *.example {gateway}"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--ignore-certificate-errors",
            "--remote-debugging-port=0",
        ]
        command = [program, *options, f"--user-data-dir={folder}", f"--host-resolver-rules={rules}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._number = 0
        port = self._wait_for_port(folder / "DevToolsActivePort")
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE) as answer:
            (page,) = (target for target in json.load(answer) if target["type"] == "page")
        self._socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=PATIENCE, suppress_origin=True)
        self.send("Page.enable")
        # A dialog stops a page. Gitea has one for each of its scripts, which our build does not contain.
        self.send("Page.addScriptToEvaluateOnNewDocument", source="window.alert = () => {}")

    def _wait_for_port(self, file: Path) -> str:
        lines = eventually(lambda: file.read_text(encoding="ascii").split(), "Chromium to open its port", pause=0.05)
        return lines[0]

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of a command. Events before it are ignored."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while (message := json.loads(self._socket.recv())).get("id") != self._number:
            pass
        if "error" in message:
            raise ValueError(f"{method}: {message['error']}")
        result: dict[str, Any] = message["result"]
        return result

    def open(self, url: str) -> None:
        """Open a page, and return once it is loaded."""
        self.send("Page.navigate", url=url)
        self._wait_for_page()

    def click(self, selector: str) -> None:
        """Click an element that opens a page, and return once that is loaded."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
        self._wait_for_page()

    def _wait_for_page(self) -> None:
        while json.loads(self._socket.recv()).get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise ValueError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def take(self, step: Mapping[str, Any]) -> Any:
        """Take a step, and return what its script evaluates to."""
        if step.get("forget"):
            self.send("Network.clearBrowserCookies")
        if "person" in step:
            self.send("Network.setCookie", name="person", value=step["person"], url=f"{issuer.URL}/")
        if "open" in step:
            self.open(step["open"])
        if "click" in step:
            self.click(step["click"])
        return self.evaluate(step["script"]) if "script" in step else None

    def close(self) -> None:
        """End Chromium."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Take the steps of standard input."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(Path(folder), *sys.argv[1:4])
        try:
            print(json.dumps([browser.take(step) for step in json.load(sys.stdin)]))
        finally:
            browser.close()


if __name__ == "__main__":
    main()
