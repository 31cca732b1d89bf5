"""A process that writes without end, or that outlives this program, is ended. A silent process is told."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from allotment.adapters import processes
from allotment.adapters.processes import Limit, Patience, ProcessLimitExceeded, ProgramShutdown, communicate_within
from allotment.cli import service

ENDLESS = "import sys\nwhile True: sys.stdout.write('x' * 65536)"


def begin(script: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.process
def test_the_output_of_a_process_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_OUTPUT_BYTES", 1 << 20)
    patience = Patience(60, 60)
    process = begin(ENDLESS)
    with pytest.raises(ProcessLimitExceeded, match="it wrote more than 1 MiB"):
        communicate_within(process, patience)
    assert process.returncode is not None
    assert communicate_within(begin("print('done')"), patience) == (b"done\n", b"")


@pytest.fixture
def reset_shutdown() -> Iterator[None]:
    yield
    processes.end_processes_after(math.inf)


@pytest.mark.process
@pytest.mark.usefixtures("reset_shutdown")
@pytest.mark.parametrize("wait", ["communicate_within", "run_within"])
def test_a_process_ends_with_this_program(wait: str) -> None:
    def run() -> object:
        if wait == "communicate_within":
            return processes.communicate_within(begin("import time; time.sleep(600)"), Patience(600, 600))
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        return processes.run_within(command, os.environ, Limit(600, 1000), subprocess.DEVNULL, lambda: None)

    with service.stop_on_signals(), ThreadPoolExecutor(1) as threads:
        running = threads.submit(run)
        assert not running.done()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service, "GIT_SECONDS", 0.1)
            signal.raise_signal(signal.SIGTERM)
        with pytest.raises(ProgramShutdown, match="this program ends"):
            running.result(30)


@pytest.mark.process
def test_a_silent_process_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "NOTICE_SECONDS", 0.1)
    notices: list[bool] = []
    process = begin("import time; time.sleep(1.5); print(1)")
    assert processes.communicate_within(process, Patience(600, 600), lambda: notices.append(True))[0] == b"1\n"
    assert notices == [True]
