"""The site on a phone, in a real browser: each code block fits the width of the screen."""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT

WIDTH = 390  # CSS pixels of a common phone
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = ("guides/instances/", "start/first-cluster/", "operate/operator/", "reference/kinds/Cluster/")
# An iframe has a viewport of its own, so the page takes the styles of a phone whatever the browser's least window is.
MEASURE = """<!doctype html><iframe src="/{page}" width="{width}" height="800"></iframe><p id="widths"></p><script>
document.querySelector("iframe").onload = event => {{
  const blocks = [...event.target.contentDocument.querySelectorAll("pre > code")];
  document.getElementById("widths").textContent = JSON.stringify(blocks.map(code => [code.scrollWidth, code.clientWidth]));
}};
</script>"""

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        BROWSER is None and "CI" not in os.environ, reason="no Chromium is installed: apt-get install chromium"
    ),
]


class _Pages(http.server.SimpleHTTPRequestHandler):
    """Serves the site, and at /measure/PAGE a page that measures it."""

    def do_GET(self) -> None:  # the base class calls it by this name
        if not self.path.startswith("/measure/"):
            return super().do_GET()
        body = MEASURE.format(page=self.path.removeprefix("/measure/"), width=WIDTH).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *arguments: Any) -> None:
        """Write no access log."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site and serve it; return its address."""
    folder = tmp_path_factory.mktemp("phone")
    shutil.copytree(PROJECT / "docs", folder / "docs")
    shutil.copyfile(PROJECT / "zensical.toml", folder / "zensical.toml")
    run = [str(Path(sys.executable).with_name("zensical")), "build"]
    subprocess.run(run, cwd=folder, check=True, capture_output=True)
    handler = functools.partial(_Pages, directory=str(folder / "docs-site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("page", PAGES)
def test_code_fits_the_screen(page: str, site: str, tmp_path: Path) -> None:
    assert BROWSER is not None, "CI needs Chromium"
    run = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    run += ["--virtual-time-budget=10000", "--dump-dom", f"{site}/measure/{page}"]
    dumped = subprocess.run(run, check=True, capture_output=True, text=True, timeout=120).stdout
    measured = re.search(r'<p id="widths">(.*?)</p>', dumped)
    assert measured, dumped
    widths = json.loads(html.unescape(measured[1]))
    assert widths
    assert [(content, screen) for content, screen in widths if content > screen] == []
