"""`allot validate --watch`, as a person runs it: save, and read."""

from __future__ import annotations

import datetime
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.conftest import DAY, edit
from tests.support.interruptible_program import BEGIN
from tests.support.waiting import eventually

from allotment.adapters.folder_source import FolderSource
from allotment.cli import validate
from allotment.services.check.repository_check import RepositoryCheck, check_repository

WEBUI = "tenants/solo-ada/instances/webui.yaml"


@pytest.mark.process
def test_validate_watch_checks_again_on_save(sample: Path) -> None:
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

            def find_closing() -> str | None:
                line = lines.get_nowait()
                return line if " fine" in line or " problem" in line else None

            return eventually(find_closing, "a closing line", pause=0.05)

        assert "7 tenants: fine" in closing()
        edit(sample, WEBUI, "l4-quarter", "l4-quater")
        assert closing().startswith(f"1 problem in {WEBUI}")
        edit(sample, WEBUI, "l4-quater", "l4-quarter")
        assert "fine" in closing()
        edit(sample, "platform/plans/starter.yaml", "instances: 3", "instances: 0")
        assert closing().startswith("1 problem in tenants/solo-ada/tenant.yaml")
        process.send_signal(signal.SIGINT)
        assert (process.wait(10), process.stderr.read().strip()) == (130, "")


class Shown(Exception):
    """The second check was shown."""


def test_a_change_during_the_first_check_is_shown(sample: Path) -> None:
    checks: list[RepositoryCheck] = []

    def check_and_edit() -> RepositoryCheck:
        first = check_repository(FolderSource(sample), datetime.date.fromisoformat(DAY))
        edit(sample, WEBUI, "l4-quarter", "l4-quater")
        return first

    def show(check: RepositoryCheck) -> int:
        checks.append(check)
        if len(checks) == 2:
            raise Shown
        return 0

    with pytest.raises(Shown):
        validate._watch_files(sample, check_and_edit, False, show, list)
    assert checks[0].errors == []
    assert [problem.path for problem in checks[1].errors] == [WEBUI]
