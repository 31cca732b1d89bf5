"""An empty cache of programs, and files that are executable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane import programs


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(programs, "CACHE", tmp_path / "cache")
    for variable in programs.GIVEN:
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache"


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path
