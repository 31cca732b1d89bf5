"""A process of `allot run` that serves the portal."""

from __future__ import annotations

import http.client
import subprocess
import sys
from pathlib import Path

from tests.support.published import Running


class RunningPortal(Running):
    """A running `allot run --portal` with further `options`."""

    def __init__(self, url: str, data: Path, *options: str) -> None:
        self.log = data.with_suffix(".log")
        words = ["run", "--portal", "--source", url, "--data", str(data), "--interval", "1", *options]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "allotment",
                    *words,
                    "--listen",
                    "127.0.0.1:0",
                    "--portal-listen",
                    "127.0.0.1:0",
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        started = self.event("started")
        self.url, self.metrics = f"http://{started['listen']}", f"http://{started['metrics']}/metrics"
        self.portal = started["portal"]

    def page(self, path: str, **headers: str) -> str:
        status, text = self.request(path, **headers)
        return text if status == 200 else ""

    def request(self, path: str, **headers: str) -> tuple[int, str]:
        """Return the status and the text of a page for a visitor with headers of the Gateway."""
        connection = http.client.HTTPConnection(self.portal, timeout=10)
        connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text
