"""What tests of the command line share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.published import Place
from tests.conftest import Allot


@pytest.fixture
def place(sample: Path, allot: Allot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return the sample as a repository with a remote, nothing of it published yet."""
    monkeypatch.setenv("GIT_COMMITTER_NAME", "allotment")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "allotment@northlight.example")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return Place(sample, tmp_path / "remote.git", allot, monkeypatch)
