"""The folder of temporary files is in memory only if it serves as well as the usual folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests import temporary_folder


@pytest.mark.process
def test_a_folder_in_memory_needs_space_and_must_run_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Path(tempfile.gettempdir())
    monkeypatch.setattr(temporary_folder, "MEMORY", tmp_path)
    monkeypatch.setattr(temporary_folder, "LEAST_BYTES", 1)
    assert temporary_folder.choose_folder() == tmp_path
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(temporary_folder, "LEAST_BYTES", 1 << 60)
    assert temporary_folder.choose_folder() == usual
    monkeypatch.setattr(temporary_folder, "LEAST_BYTES", 1)
    monkeypatch.setattr(temporary_folder, "MEMORY", tmp_path / "absent")
    assert temporary_folder.choose_folder() == usual
    forbidden = PermissionError("mounted with noexec")
    monkeypatch.setattr(temporary_folder, "MEMORY", tmp_path)
    monkeypatch.setattr(temporary_folder.subprocess, "run", lambda *_, **__: (_ for _ in ()).throw(forbidden))
    assert temporary_folder.choose_folder() == usual
