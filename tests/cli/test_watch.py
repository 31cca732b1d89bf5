"""`allot validate --watch`, as a person runs it: save, and read."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.cli.test_interrupted import BEGIN
from tests.conftest import DAY, edit

WEBUI = "tenants/solo-ada/instances/webui.yaml"


def test_it_checks_again_on_save(sample: Path) -> None:
    run = [sys.executable, "-u", "-c", BEGIN, "validate", "--repo", str(sample), "--watch", "--as-of", DAY]
    with subprocess.Popen(
        run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(
            target=lambda out: [lines.put(line) for line in out], args=(process.stdout,), daemon=True
        ).start()

        def closing() -> str:
            """Return the next closing line, `… fine` or `… problems`."""
            deadline = time.monotonic() + 30
            while True:
                line = lines.get(timeout=deadline - time.monotonic())
                if " fine" in line or " problem" in line:
                    return line

        assert "7 tenants: fine" in closing()
        time.sleep(1)  # the watch begins
        edit(sample, WEBUI, "l4-quarter", "l4-quater")
        assert closing().startswith(f"1 problem in {WEBUI}")
        edit(sample, WEBUI, "l4-quater", "l4-quarter")
        assert "fine" in closing()
        edit(sample, "platform/plans/starter.yaml", "instances: 3", "instances: 0")
        assert closing().startswith("1 problem in tenants/solo-ada/tenant.yaml")
        process.send_signal(signal.SIGINT)
        assert (process.wait(10), process.stderr.read().strip()) == (130, "")
