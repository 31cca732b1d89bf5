"""A process that writes without end is ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from allotment.adapters import processes
from allotment.adapters.processes import Patience, ProcessLimitExceeded, communicate_within

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
