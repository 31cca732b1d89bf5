"""`make demo` shows the sample: it validates, renders and publishes it, and serves a portal with resources in all states."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from allotment.portal.pages.page_renderer import Page
from tests.conftest import PROJECT
from tests.portal.pages.page_text import read_text
from tests.support.published import git


@pytest.mark.process
def test_the_demo_publishes_the_sample_and_serves_its_portal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.demo", str(tmp_path / "out"), "0"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            output = ""
            for line in process.stdout:
                output += line
                if " serves " in line:
                    break
            assert "One declaration of" in output
            links = dict(re.findall(r"^    (an? \w+(?: \w+)?|the platform) +(http://\S+)$", output, re.MULTILINE))
            pages = {title: fetch(link) for title, link in links.items()}
            (remote,) = tmp_path.glob("allotment-demo-*/forge.git")
            for cluster in ("eu-1", "us-1"):
                assert "control" in git(remote, "ls-tree", "--name-only", f"rendered/{cluster}").splitlines()
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
        finally:
            process.terminate()
    assert (tmp_path / "out/eu-1/tenants/solo-ada/compute/webui.rendered.yaml").is_file()
    assert not [*tmp_path.glob("allotment-demo-*")]
    assert set(pages) == {"a tenant", "an instance", "an invoice", "the platform", "a new instance"}
    assert not [title for title, page in pages.items() if "not published" in page.lower()]
    assert "Running" in pages["an instance"]
    assert "1 Failed" in pages["the platform"] and "1 Waiting" in pages["the platform"]
    assert re.search(r"Total\D+[1-9]\d*\.\d\d", pages["an invoice"]), pages["an invoice"]


def fetch(link: str) -> str:
    """Return the text of a page."""
    with urllib.request.urlopen(link, timeout=60) as answer:
        return read_text(Page(link, answer.read()))
