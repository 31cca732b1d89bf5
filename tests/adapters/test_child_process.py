"""A part of `allot run` in a process of its own is told what to do by its words and its variables, and by nothing else."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from allotment.adapters import child_process


def test_no_option_reaches_it_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The add-on gives ALLOT_CLUSTER to `allot run`: who comments would become a second reporter."""
    seen: dict[str, str] = {}

    def begin(words: list[str], *, stdin: int, env: dict[str, str]) -> Any:
        assert "s3cret" not in " ".join(words)
        seen.update(env)
        raise OSError("enough")

    monkeypatch.setattr(subprocess, "Popen", begin)
    for name in ("ALLOT_CLUSTER", "ALLOT_PUBLISH", "ALLOT_LEASE", "ALLOT_FORGE_TOKEN", "GIT_SSL_CAINFO"):
        monkeypatch.setenv(name, "x")
    with pytest.raises(OSError, match="enough"):
        child_process.ChildProcess(
            ["run"], CapturingLogger(), is_leader=lambda: True, variables={"ALLOT_SOURCE": "https://bot:s3cret@forge/x"}
        )._run_process()
    assert {name for name in seen if name.startswith("ALLOT_")} == {"ALLOT_FORGE_TOKEN", "ALLOT_SOURCE"}
    assert seen["GIT_SSL_CAINFO"] == "x"
