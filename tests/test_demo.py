"""`make demo` shows the sample: it validates, renders and publishes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.support.published import git


@pytest.mark.process
def test_the_demo_renders_and_publishes_the_sample(tmp_path: Path) -> None:
    if git(PROJECT, "rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("a shallow clone has no history to publish")
    command = [sys.executable, str(PROJECT / "tests/demo.py"), str(tmp_path / "out")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "One declaration of" in process.stdout
    assert (tmp_path / "out/eu-1/tenants/solo-ada/compute/webui.rendered.yaml").is_file()
    (remote,) = tmp_path.glob("allotment-demo-*/out.git")
    assert str(remote) in process.stdout
    for cluster in ("eu-1", "us-1"):
        assert "control" in git(remote, "ls-tree", "--name-only", f"rendered/{cluster}").splitlines()
